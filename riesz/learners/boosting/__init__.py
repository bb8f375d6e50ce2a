"""Gradient boosting of trees for mu and for the Riesz representer, on LightGBM."""
