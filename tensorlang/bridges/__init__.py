"""Translations, each a file that needs the library on the other side only when it is crossed.

Kernels as functions of torch, JAX and tvm-ffi; programs of torch and models of ONNX as graphs.
"""
