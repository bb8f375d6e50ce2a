"""Designs in files: the arrays that a file holds, and the design that is made of them."""

from __future__ import annotations

from dataclasses import replace

from riesz.design.design import Base, Design


def to_stored(design: Design) -> Base:
    """The arrays of a design's sample, without the functions, which a file cannot hold."""
    return replace(design._base, looks=None)


def from_stored(base: Base) -> Design:
    """The design of a sample that was read from a file."""
    return Design(replace(base, anchor=base.anchor.linked(base.moment.links)), slice(None))
