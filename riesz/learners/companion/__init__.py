"""Closed forms on smooth features, and how they are blended with networks."""
