"""Adversarial estimation of the Riesz representer, in closed form."""
