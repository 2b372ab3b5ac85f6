"""How definitions are written: `compute`, reductions, scans, scatters, recurrences, padding, and the two notations."""
