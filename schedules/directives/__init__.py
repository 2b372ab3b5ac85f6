"""The directives: one file each, or one for a close family."""
