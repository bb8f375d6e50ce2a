"""What networks minimise: an objective is a loss, and how mu and rr are read from a trained network."""
