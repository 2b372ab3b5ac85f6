"""What compiled code finds around it: threads, C functions, arrays and clocks."""
