"""Is every element that a definition reads there? Proofs, and examples that are seen to occur."""
