"""From a user's call to a fit: the verbs, the preparation of their arguments, estimation, and fits from files."""
