"""What is done to a whole program before its stages are scheduled, so that more of them can be run well."""
