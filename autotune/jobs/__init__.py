"""A tuning job and a batch of them: ask the search, have candidates measured, write down, decide; and the kernel of what was found."""
