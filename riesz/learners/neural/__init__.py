"""Networks that learn mu and the Riesz representer together, many at once."""
