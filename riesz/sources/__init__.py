"""Data that are read in chunks because they need not fit in memory: files, a first pass, and designs of chunks."""
