"""Kernels as functions of other libraries: each file translates to one of them, and needs it only when it is used."""
