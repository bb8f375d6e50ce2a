"""Checks of a fit: each a function of predictions and design that returns a frame."""

from riesz.diagnostics.weights import representer_health

__all__ = ["representer_health"]
