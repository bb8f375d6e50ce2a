"""Fits in files: arrays and JSON in a zip archive, never pickle, so that reading a file cannot run code.

``archive`` reads and writes the zip archive, at a path that ``paths`` checks. ``coding`` turns dataclasses into JSON and arrays and
back; ``annotations`` checks their types, ``conversion`` reads those of older files, and ``frames`` does the same for data frames.
``riesz.results.file`` lists the parts of a fit and ``riesz.results.file_checks`` checks them. ``studies`` is the file of a
simulation study, which is CSV.
"""
