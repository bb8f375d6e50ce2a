"""Sample splitting: folds, repeats, copies of rows, trimming, threads and progress."""
