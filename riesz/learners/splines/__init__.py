"""The closed form on splines and their products."""
