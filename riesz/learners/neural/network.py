r"""Many small networks at once: a stack of multi-headed perceptrons with a leading ``members`` axis.

The parameters of a stack are one tensor of shape (members, P), of which weights and biases are views. Forward and
backward passes are written out with batched matrix products, because for networks this small the bookkeeping of automatic
differentiation costs as much as the arithmetic. Derivatives of the outputs along a direction of the inputs (forward
mode) travel in the same products: the tangents stand below the inputs as further rows.

Shapes: M members, N rows, d inputs, K moment-constrained heads, H outcome heads. Layers are
:math:`s = \mathrm{ELU}(x W + b)`; with tangent t, :math:`\dot s = \mathrm{ELU}'(xW + b) \odot (t W)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """The sizes of a network.

    Attributes
    ----------
    inputs : int
        d.
    components : int
        K, the heads that are linear in the shared representation.
    outcomes : int
        H, the outcome heads.
    width, depth : int
        Of the shared body: ``depth`` hidden layers of ``width`` units.
    head_width, head_depth : int
        Of each outcome head; depth 0 makes it linear in the shared representation.
    """

    inputs: int
    components: int
    outcomes: int
    width: int
    depth: int
    head_width: int
    head_depth: int

    def parameters(self) -> list[tuple[int, ...]]:
        """Shapes of all weights and biases in order; the last entries of the last one are the outcome heads' output biases."""
        sizes = [self.inputs, *[self.width] * self.depth]
        shapes: list[tuple[int, ...]] = []
        for before, after in pairwise(sizes):
            shapes += [(before, after), (after,)]
        own = self.head_width if self.head_depth else 1
        shapes += [(self.width, self.components + self.outcomes * own), (self.components + self.outcomes * own,)]
        for _ in range(self.head_depth - 1):
            shapes += [(self.outcomes, own, own), (self.outcomes, own)]
        if self.head_depth:
            shapes += [(self.outcomes, own, 1), (self.outcomes,)]
        return shapes

    @property
    def size(self) -> int:
        """P, the number of parameters of one member."""
        return sum(prod(shape) for shape in self.parameters())

    @property
    def products(self) -> int:
        """Multiply-adds of one row's forward pass: what useful work is counted in."""
        return sum(prod(shape) for shape in self.parameters()[::2])


def initial(shape: Shape, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Starting values of one member: uniform on +-1/sqrt(fan in), for weights and biases alike, shape (P,)."""
    generator = np.random.default_rng(seed)
    pieces, fan_in = [], 1
    for size in shape.parameters():
        if len(size) > 1 and size[-2:] != (size[-1],):
            fan_in = size[-2]
        pieces.append(generator.uniform(-1, 1, prod(size)).astype(np.float32) / np.float32(np.sqrt(fan_in)))
    return np.concatenate(pieces)


class Stack:
    """Parameters of several members, and how to pass rows forward and gradients back.

    Attributes
    ----------
    flat : Tensor, shape (M, P)
    gradient : Tensor, shape (M, P)
    """

    def __init__(self, shape: Shape, flat: Tensor) -> None:
        self.shape = shape
        self.flat = flat
        self.gradient = torch.zeros_like(flat)
        self._values = _views(flat, shape)
        self._slopes = _views(self.gradient, shape)
        self._tape: list[tuple[Tensor, ...]] = []

    def forward(self, rows: Tensor, dual: bool, keep: bool) -> Tensor:
        """All heads at some rows.

        Parameters
        ----------
        rows : Tensor, shape (M, N, d) or, when dual, (M, 2N, d)
            Inputs, and below them their tangents.
        dual : bool
        keep : bool
            Keep what the backward pass needs.

        Returns
        -------
        Tensor, shape (M, N or 2N, K + H)
            Moment-constrained heads, then outcome heads; below them their tangents.
        """
        n = rows.shape[1] // 2 if dual else rows.shape[1]
        k = self.shape.components
        tape: list[tuple[Tensor, ...]] = []
        weights = iter(zip(self._values[::2], self._values[1::2], strict=True))
        x = rows
        for _ in range(self.shape.depth):
            w, b = next(weights)
            x, saved = _layer(x, w, b, n, dual)
            tape.append(saved)
        w, b = next(weights)
        joint = _linear(x, w, b, n)
        tape.append((x,))
        if not self.shape.head_depth:
            self._tape = tape if keep else []
            return joint
        members, total = joint.shape[:2]
        heads = joint[..., k:].reshape(members, total, self.shape.outcomes, -1)
        heads = heads.permute(0, 2, 1, 3).reshape(members * self.shape.outcomes, total, -1).contiguous()
        y, saved = _activate(heads, n, dual)
        tape.append(saved)
        for _ in range(self.shape.head_depth - 1):
            w, b = next(weights)
            y, saved = _layer(y, w.flatten(0, 1), b.flatten(0, 1), n, dual)
            tape.append(saved)
        w, b = next(weights)
        out = torch.bmm(y, w.flatten(0, 1))
        out[:, :n] += b.reshape(-1, 1, 1)
        tape.append((y,))
        outcome = out.reshape(members, self.shape.outcomes, total).transpose(1, 2)
        self._tape = tape if keep else []
        return torch.cat([joint[..., :k], outcome], dim=-1)

    def represent(self, rows: Tensor, dual: bool) -> Tensor:
        """The shared representation at some rows, shape (M, N or 2N, width)."""
        n = rows.shape[1] // 2 if dual else rows.shape[1]
        x = rows
        for index in range(self.shape.depth):
            x, _ = _layer(x, self._values[2 * index], self._values[2 * index + 1], n, dual)
        return x

    def backward(self, gradient: Tensor, dual: bool) -> None:
        """Fill ``gradient`` of the stack from the gradient of a loss in the outputs of the last forward pass."""
        n = gradient.shape[1] // 2 if dual else gradient.shape[1]
        k = self.shape.components
        layers = list(zip(self._values[::2], self._values[1::2], self._slopes[::2], self._slopes[1::2], strict=True))
        tape = self._tape
        joint = gradient
        if self.shape.head_depth:
            members, total = gradient.shape[:2]
            g = gradient[..., k:].transpose(1, 2).reshape(members * self.shape.outcomes, total, 1).contiguous()
            w, _, gw, gb = layers.pop()
            (y,) = tape.pop()
            gw.copy_(torch.bmm(y.transpose(1, 2), g).reshape(gw.shape))
            gb.copy_(g[:, :n].sum(dim=1).reshape(gb.shape))
            g = torch.bmm(g, w.flatten(0, 1).transpose(1, 2))
            for _ in range(self.shape.head_depth - 1):
                w, _, gw, gb = layers.pop()
                g = _layer_back(g, tape.pop(), w.flatten(0, 1), gw, gb, n, dual)
            _activate_back(g, tape.pop(), n, dual)
            g = g.reshape(members, self.shape.outcomes, total, -1).permute(0, 2, 1, 3).reshape(members, total, -1)
            joint = torch.cat([gradient[..., :k], g], dim=-1)
        w, _, gw, gb = layers.pop()
        (x,) = tape.pop()
        g = _linear_back(joint, x, w, gw, gb, n)
        while layers:
            w, _, gw, gb = layers.pop()
            g = _layer_back(g, tape.pop(), w, gw, gb, n, dual, first=not layers)


def _views(flat: Tensor, shape: Shape) -> list[Tensor]:
    found, at = [], 0
    for size in shape.parameters():
        found.append(flat[:, at : at + prod(size)].view(-1, *size))
        at += prod(size)
    return found


def _linear(x: Tensor, w: Tensor, b: Tensor, n: int) -> Tensor:
    h = torch.bmm(x, w)
    h[:, :n] += b.unsqueeze(1)
    return h


def _activate(h: Tensor, n: int, dual: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
    """ELU of the first n rows of h, in place of them; its derivative times the tangents below."""
    top = h[:, :n] if dual else h
    s = torch.maximum(top, top.clamp_max(0.0).exp_().sub_(1.0))  # ELU; exp and a maximum beat expm1 by a factor of two
    if not dual:
        return s, (s,)
    tangent = h[:, n:]
    slope = s.clamp_max(0.0).add_(1.0)
    return torch.cat([s, slope * tangent], dim=1), (s, slope, tangent)


def _activate_back(g: Tensor, saved: tuple[Tensor, ...], n: int, dual: bool) -> None:
    """Turn the gradient of a layer's output into that of its input, in place."""
    if not dual:
        g.mul_(saved[0].clamp_max(0.0).add_(1.0))
        return
    s, slope, tangent = saved
    # ELU'' = ELU' below zero and 0 above
    g[:, :n].addcmul_(g[:, n:] * tangent, (s < 0).to(g.dtype))
    g[:, :n].mul_(slope)
    g[:, n:].mul_(slope)


def _layer(x: Tensor, w: Tensor, b: Tensor, n: int, dual: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
    out, saved = _activate(_linear(x, w, b, n), n, dual)
    return out, (x, *saved)


def _layer_back(
    g: Tensor, saved: tuple[Tensor, ...], w: Tensor, gw: Tensor, gb: Tensor, n: int, dual: bool, first: bool = False
) -> Tensor:
    _activate_back(g, saved[1:], n, dual)
    return _linear_back(g, saved[0], w, gw, gb, n, first)


def _linear_back(g: Tensor, x: Tensor, w: Tensor, gw: Tensor, gb: Tensor, n: int, first: bool = False) -> Tensor:
    gw.copy_(torch.bmm(x.transpose(1, 2), g).view(gw.shape))
    gb.copy_(g[:, :n].sum(dim=1).view(gb.shape))
    return g if first else torch.bmm(g, w.transpose(1, 2))
