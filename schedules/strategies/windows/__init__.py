"""Sliding windows whose data is read by neighbours alone, tile by tile."""
