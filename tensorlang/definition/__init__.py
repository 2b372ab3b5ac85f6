"""What a definition is made of: expressions, extents, tensors as values, and what holds where a part of one is evaluated."""
