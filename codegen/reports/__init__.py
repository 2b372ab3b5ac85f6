"""What a kernel does and what bounds it: counts, working sets, machine code and time in one report."""
