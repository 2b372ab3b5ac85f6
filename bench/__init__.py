"""Measurements: the project's figures, each a ratio within one run on one machine, beside a peer on the same core."""
