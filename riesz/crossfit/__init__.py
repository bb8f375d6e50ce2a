"""Sample splitting: folds, repeats, stacking of learners, copies of rows, untrained levels, trimming, threads and progress."""
