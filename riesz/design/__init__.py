"""From data frames to arrays: rows, weights, columns, the moment and its readings."""
