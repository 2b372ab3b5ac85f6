"""The `autotune` command."""
