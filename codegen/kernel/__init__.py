"""Kernels: built, called, packed with constants, saved and loaded."""
