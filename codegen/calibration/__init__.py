"""This machine, measured with kernels of our own: in rounds, within a budget of time, and believed only where it makes sense."""
