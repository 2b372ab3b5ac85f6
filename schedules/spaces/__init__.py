"""Spaces of schedules: knobs with their constraints, counted, sampled, encoded, and written down."""
