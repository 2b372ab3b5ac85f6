"""Is a kernel right: its results beside those of the reference evaluator and of the default schedule."""
