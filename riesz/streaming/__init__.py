"""Fits to a source: passes over its chunks that add up sums, and estimates from these sums."""
