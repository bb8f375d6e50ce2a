"""Local Riesz regressions with the weights of random forests."""
