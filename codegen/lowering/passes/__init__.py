"""The passes of `lower`, one a file: each takes a statement or nest and gives an equal one nearer to machine code."""
