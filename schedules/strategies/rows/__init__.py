"""Ways to run a stage whose operands are not reused: rows, blocks of them, transpositions; and what is asked of any such way."""
