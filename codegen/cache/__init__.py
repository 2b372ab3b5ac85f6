"""A compiled program as a value, as an entry of a cache, and as a file; what was found out about one."""
