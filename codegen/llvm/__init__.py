"""LLVM: the only room that talks to `llvmlite.binding`, and the process in which it may die."""
