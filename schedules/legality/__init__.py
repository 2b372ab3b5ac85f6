"""What may be done to a nest: dependences, conditions of accesses, lanes, and limits of code and memory; and what a step makes."""
