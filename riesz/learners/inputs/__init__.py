"""Inputs of learners: the treatment and covariates of a design as numbers, at the observed rows and at every reading."""
