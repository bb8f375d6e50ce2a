"""Fits in files: arrays and JSON in a zip archive, never pickle, so that reading a file cannot run code.

``archive`` is the file; ``coding`` turns our dataclasses into JSON and arrays and back; ``frames`` does so for data frames;
``contents`` knows what a fit is made of.
"""

from riesz.storage.contents import Contents, read_fit, write_fit

__all__ = ["Contents", "read_fit", "write_fit"]
