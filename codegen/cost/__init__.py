"""What a program costs: operations, compulsory traffic, workspace."""
