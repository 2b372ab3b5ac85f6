"""From a scheduled nest to one that is emitted statement by statement: guards, tails, vectors, storage."""
