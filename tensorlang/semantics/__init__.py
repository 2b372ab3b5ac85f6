"""What definitions and nests mean: the evaluator and the interpreter of nests, against which compiled code is held."""
