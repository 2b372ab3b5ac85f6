"""Sequences as files: a program of numbers, its weights, its kernels, and two machines that run it without a compiler."""
