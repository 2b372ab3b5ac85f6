"""Definitions as text and back, and the fingerprint by which one is known."""
