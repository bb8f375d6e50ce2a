"""Fits in files: arrays and JSON in a zip archive, never pickle, so that reading a file cannot run code.

``archive`` is the file and ``paths`` where it is; ``coding`` turns our dataclasses into JSON and arrays and back, with
``annotations`` for their types; ``frames`` does so for data frames; the parts of a fit are listed in
``riesz.results.file`` and checked in ``riesz.results.file_checks``.
"""
