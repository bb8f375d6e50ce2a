"""Balancing weights for any linear moment."""
