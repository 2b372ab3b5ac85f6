"""Which nodes of a graph are one kernel.

    group         a part of a graph as a program: what it reads, what it gives, its definition
    clusters      the parts while they are being decided: who reads whom, what may be joined without a cycle
    weighing      what a part costs, by the kernel library's estimates
    deciding      which parts are joined

A kernel is compiled for the composition of its nodes, whatever they are, so nothing is a template. What is read off index expressions
(`kernels.access`) says which parts are worth asking about, `kernels.estimate` decides.
"""
