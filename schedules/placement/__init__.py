"""Where a producer stands among the loops of its consumers: its place, its storage, and what of it slides."""
