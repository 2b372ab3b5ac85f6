"""The database that comes with the package: winners of kernels that models spend their time in, for classes of processors."""
