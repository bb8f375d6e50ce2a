r"""Kernels and their derivatives, between points v and landmarks u.

A radial kernel is a function g of the squared distance :math:`s = \|v - u\|^2`,

.. math:: \text{Gaussian: } g = e^{-s/2}, \qquad
    \text{Matern (5/2): } g = (1 + \sqrt{5 s} + 5 s / 3)\, e^{-\sqrt{5 s}}.

Along a tangent t of v its derivative is :math:`2 g' (v - u)'t`, along a tangent r of u it is :math:`2 g' (u - v)'r`, and along
both it is :math:`4 g'' (v - u)'t\,(u - v)'r - 2 g'\, t'r`. A moment that reads derivatives needs all of them: its representer is a
combination of sections :math:`k(u, \cdot)` and :math:`\partial_r k(u, \cdot)`, which is read at points and along tangents.

Shapes: n points, m landmarks, d inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from riesz.arrays import Array

Part = Array | float  # zero derivatives are the number 0.0, for which no array is made


@dataclass(frozen=True)
class Jet:
    """A kernel between points and landmarks, with its derivatives; each of shape (n, m), or 0.0.

    Attributes
    ----------
    value : ndarray
        k(u, v).
    at_point, at_landmark : ndarray or float
        The derivative along the point's and along the landmark's tangent.
    both : ndarray or float
        The derivative along both.
    """

    value: Array
    at_point: Part = 0.0
    at_landmark: Part = 0.0
    both: Part = 0.0

    def plus(self, number: float) -> Jet:
        """The kernel plus a constant."""
        return Jet(self.value + number, self.at_point, self.at_landmark, self.both)

    def added(self, other: Jet, factor: float) -> Jet:
        """The kernel plus a multiple of another one."""
        return Jet(
            self.value + factor * other.value,
            self.at_point + factor * other.at_point,
            self.at_landmark + factor * other.at_landmark,
            self.both + factor * other.both,
        )

    def times(self, other: Jet) -> Jet:
        """The product of two kernels, by the product rule."""
        return Jet(
            self.value * other.value,
            _times(self.at_point, other.value) + _times(self.value, other.at_point),
            _times(self.at_landmark, other.value) + _times(self.value, other.at_landmark),
            _times(self.both, other.value)
            + _times(self.at_point, other.at_landmark)
            + _times(self.at_landmark, other.at_point)
            + _times(self.value, other.both),
        )


def _times(left: Part, right: Part) -> Part:
    return 0.0 if isinstance(left, float) or isinstance(right, float) else left * right


def same(v: Array, u: Array) -> Jet:
    """1{v = u}, for arms given by numbers, shapes (n, 1) and (m, 1); it has no derivatives."""
    return Jet((v == u.T).astype(np.float64))


def dot(v: Array, u: Array, t: Array | None, r: Array | None) -> Jet:
    """v'u, for points (n, d) with tangents t and landmarks (m, d) with tangents r; None if no derivatives are needed."""
    return Jet(
        v @ u.T,
        0.0 if t is None else t @ u.T,
        0.0 if r is None else v @ r.T,
        0.0 if t is None or r is None else t @ r.T,
    )


def radial(kernel: str, v: Array, u: Array, t: Array | None, r: Array | None) -> Jet:
    """The Gaussian or the Matern kernel; for the arguments see :func:`dot`.

    Examples
    --------
    >>> import numpy as np
    >>> from riesz.learners.kernel.functions import radial
    >>> float(radial("gaussian", np.array([[2.0]]), np.array([[0.0]]), None, None).value[0, 0].round(3))  # exp(-2)
    0.135
    """
    if v.shape[1] == 1:
        square = v - u.T
        np.square(square, out=square)
    else:
        square = np.clip((v**2).sum(axis=1)[:, None] + (u**2).sum(axis=1) - 2 * v @ u.T, 0.0, None)
    value, first, second = _profile(kernel, square, derivatives=t is not None or r is not None)
    along_point = along_landmark = both = 0.0  # type: Part
    if t is not None:
        along_point = (v * t).sum(axis=1)[:, None] - t @ u.T
    if r is not None:
        along_landmark = (u * r).sum(axis=1) - v @ r.T
    if t is not None and r is not None:
        both = 4 * second * along_point * along_landmark - 2 * first * (t @ r.T)
    return Jet(value, _times(2 * first, along_point), _times(2 * first, along_landmark), both)


def additive(v: Array, u: Array, t: Array | None, r: Array | None, lengths: Array) -> Jet:
    """The Gaussian kernel of all inputs plus the mean of Gaussian kernels of each, whose lengths have shape (d,)."""
    kernel = radial("gaussian", v, u, t, r)
    for j, length in enumerate(lengths):
        one = slice(j, j + 1)
        tangents = (None if along is None else along[:, one] / length for along in (t, r))
        kernel = kernel.added(radial("gaussian", v[:, one] / length, u[:, one] / length, *tangents), 1.0 / len(lengths))
    return kernel


def _profile(kernel: str, square: Array, derivatives: bool) -> tuple[Array, Part, Part]:
    """g, g' and g'' as functions of the squared distance; without derivatives the last two are 0.0."""
    if kernel == "gaussian":
        value = np.exp(-0.5 * square)
        return (value, -value / 2, value / 4) if derivatives else (value, 0.0, 0.0)
    root = np.sqrt(5 * square)
    decay = np.exp(-root)
    value = (1 + root + root**2 / 3) * decay
    return (value, -5 / 6 * (1 + root) * decay, 25 / 12 * decay) if derivatives else (value, 0.0, 0.0)
