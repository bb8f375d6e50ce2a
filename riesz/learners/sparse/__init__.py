"""The lasso for mu and rr, from second moments of the columns alone."""
