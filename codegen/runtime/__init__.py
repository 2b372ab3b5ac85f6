"""What compiled code finds around it: threads, the OpenMP runtime, C functions, arrays and clocks."""
