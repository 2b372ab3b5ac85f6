"""What was measured, for good: records as lines of a file, read, merged, exported, and looked up."""
