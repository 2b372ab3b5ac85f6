"""Kernels as files for programs without Python: objects, libraries, C, and what tells about them."""
