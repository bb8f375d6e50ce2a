"""Checks of a fit: functions of predictions, design and influence that return frames, and the words for what they find."""

from riesz.diagnostics.weights import representer_health

__all__ = ["representer_health"]
