"""What any way to run a stage may add to its loops: threads, streaming stores, prefetching, sums in blocks, what comes after."""
