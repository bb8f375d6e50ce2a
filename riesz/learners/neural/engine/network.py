r"""Many small networks at once: multi-headed perceptrons with a leading ``members`` axis.

The parameters of a :class:`NetworkBatch` are one tensor of shape (members, P), of which weights and biases are views. Forward and
backward passes are written out with batched matrix products, because for networks this small the bookkeeping of automatic
differentiation costs as much as the arithmetic. Derivatives of the outputs along a direction of the inputs (forward
mode) use the same products: the tangents are further rows below the inputs.

Shapes: M members, N rows, d inputs, K moment-constrained heads, H outcome heads. Layers are
:math:`s = \mathrm{ELU}(x W + b)`; with tangent t, :math:`\dot s = \mathrm{ELU}'(xW + b) \odot (t W)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
import torch
from torch import Tensor

from riesz.errors import LearnerError
from riesz.storage.coding import stored

elu_backward = torch.ops.aten.elu_backward.grad_input
LOG2_E = float(np.log2(np.e))
_DEEPEST = 1000
LANES = 64  # at least as many numbers as a processor handles at once
STEADY = 12  # columns from which the rounding of a product never depends on the number of members
THIN = 8  # columns of a product up to which its transpose is faster


@stored
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
        The shared body has ``depth`` hidden layers of ``width`` units.
    head_width, head_depth : int
        Of each outcome head; depth 0 makes it linear in the shared representation.
    extras : int
        E, parameters stored before the network's weights; they start at zero and enter only the loss.
    """

    inputs: int
    components: int
    outcomes: int
    width: int
    depth: int
    head_width: int
    head_depth: int
    extras: int = 0

    def __post_init__(self) -> None:
        if (
            max(self.depth, self.head_depth) > _DEEPEST
        ):  # checked here because a file may claim any depth, and its layers are listed before they are compared
            raise LearnerError(f"A network of more than {_DEEPEST:,} layers; expected fewer, such as depth=2.")

    def parameters(self) -> list[tuple[int, ...]]:
        """Shapes of all weights and biases in order; the last entries of the last one are the outcome heads' output biases."""
        sizes = [self.inputs, *[self.width] * self.depth]
        shapes: list[tuple[int, ...]] = []
        for before, after in pairwise(sizes):
            shapes += [(before, after), (after,)]
        head_width = self.head_width if self.head_depth else 1
        shapes += [
            (self.width, self.components + self.outcomes * head_width),
            (self.components + self.outcomes * head_width,),
        ]
        for _ in range(self.head_depth - 1):
            shapes += [(self.outcomes, head_width, head_width), (self.outcomes, head_width)]
        if self.head_depth:
            shapes += [(self.outcomes, head_width, 1), (self.outcomes,)]
        return shapes

    @property
    def size(self) -> int:
        """P, the number of parameters of one member."""
        return self.extras + sum(prod(shape) for shape in self.parameters())


def initial(shape: Shape, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Starting values of one member: uniform on +-1/sqrt(fan in), for weights and biases alike, shape (P,)."""
    generator = np.random.default_rng(seed)
    pieces, fan_in = [], 1
    for size in shape.parameters():
        if len(size) > 1 and size[-2:] != (size[-1],):
            fan_in = size[-2]
        pieces.append(generator.uniform(-1, 1, prod(size)).astype(np.float32) / np.float32(np.sqrt(fan_in)))
    return np.concatenate([np.zeros(shape.extras, np.float32), *pieces])


class _Layer:
    """The weights of one layer of all members, their gradients, and views of both that its products need.

    A layer of the body is one product; a layer of the outcome heads is one for each head, on that head's own columns.
    """

    def __init__(self, values: tuple[Tensor, Tensor], slopes: tuple[Tensor, Tensor]) -> None:
        (w, b), (gw, gb) = values, slopes
        if w.ndim == 3:
            w, gw = w.unsqueeze(1), gw.unsqueeze(1)
        self.before, self.after = (w.shape[1] * size for size in w.shape[2:])
        self.weights = w.unbind(1)
        self.turned = [weight.transpose(1, 2) for weight in self.weights]
        self.weight_slopes = gw.unbind(1)
        self.bias, self.bias_slopes = b.flatten(1).unsqueeze(1), gb.flatten(1)

    def columns(self, x: Tensor) -> Sequence[Tensor]:
        """The columns of a layer's input or output that each product has."""
        return x.chunk(len(self.weights), dim=2) if len(self.weights) > 1 else (x,)


class NetworkBatch:
    """Parameters of several members, and how to pass rows forward and gradients back.

    Outputs of layers are kept in buffers, which the next pass of the same size overwrites.

    Attributes
    ----------
    flat : Tensor, shape (M, P)
    gradient : Tensor, shape (M, P)
    extras : Tensor, shape (M, E)
        A view of the first of ``flat``.
    """

    def __init__(self, shape: Shape, flat: Tensor) -> None:
        self.shape = shape
        self.flat = flat
        self.gradient = torch.zeros_like(flat)
        self.extras = flat[:, : shape.extras]
        values, slopes = (list(_pairs(_views(part, shape))) for part in (flat, self.gradient))
        layers = [_Layer(*pair) for pair in zip(values, slopes, strict=True)]
        k, depth = shape.components, shape.depth
        joint = [*values[depth], *slopes[depth]]  # of all heads on the representation
        (w, b, gw, gb), (hw, hb, ghw, ghb) = (
            [tensor[..., cut] for tensor in joint] for cut in (slice(0, k), slice(k, None))
        )
        self._body, self._components = layers[:depth], _Layer((w, b), (gw, gb))
        self._outcomes = [_Layer((hw, hb), (ghw, ghb)), *layers[depth + 1 :]]
        self._tape: list[tuple[Tensor, ...]] = []
        self._buffers: dict[tuple[object, ...], Tensor] = {}

    def forward(self, rows: Tensor, dual: bool) -> Tensor:
        """All heads at some rows.

        Parameters
        ----------
        rows : Tensor, shape (M, N, d) or, when dual, (M, 2N, d)
            Inputs, and below them their tangents.
        dual : bool

        Returns
        -------
        Tensor, shape (M, N or 2N, K + H)
            Moment-constrained heads, then outcome heads; below them their tangents.
        """
        x = self._represent(rows, dual)
        outputs = torch.cat([self._linear(self._components, x, dual), self._outcome_heads(x, dual)], dim=-1)
        self._tape.clear()
        return outputs

    def forward_to_train(self, rows: Tensor, observed: Tensor, dual: bool) -> tuple[Tensor, Tensor]:
        """What a loss needs: moment-constrained heads at all rows, outcome heads only at the observed ones.

        Parameters
        ----------
        rows : Tensor, shape (M, N, d) or, when dual, (M, 2N, d)
        observed : Tensor of int, shape (M, B)
            The observed rows, counted over the members' rows one after the other.
        dual : bool

        Returns
        -------
        components : Tensor, shape (M, N or 2N, K)
        outcomes : Tensor, shape (M, B, H)
        """
        x = self._represent(rows, dual)
        components = self._linear(self._components, x, dual)
        observed_rows = self._buffer("observed", observed, x.shape[2], like=x)
        torch.index_select(x.flatten(0, 1), 0, observed.flatten(), out=observed_rows.view(-1, x.shape[2]))
        return components, self._outcome_heads(observed_rows, dual=False)

    def represent(self, rows: Tensor, dual: bool) -> Tensor:
        """The shared representation at some rows, shape (M, N or 2N, width)."""
        hidden = self._represent(rows, dual).clone()
        self._tape.clear()
        return hidden

    def backward(self, components: Tensor, outcomes: Tensor, observed: Tensor, dual: bool) -> None:
        """Fill ``gradient`` from a loss's gradient with respect to the last result of :meth:`forward_to_train`."""
        tape, g = self._tape, outcomes
        for place, layer in reversed(list(enumerate(self._outcomes))):
            g = self._back(layer, g, tape.pop()[0], dual=False)
            if place:
                _activate_back(g, tape.pop(), dual=False)
        flat = g.flatten(0, 1)
        g = self._back(self._components, components, tape.pop()[0], dual)
        g.flatten(0, 1).index_add_(0, observed.flatten(), flat)
        for layer in reversed(self._body):
            _activate_back(g, tape.pop(), dual)
            g = self._back(layer, g, tape.pop()[0], dual)

    def _represent(self, rows: Tensor, dual: bool) -> Tensor:
        self._tape.clear()
        x = rows
        for layer in self._body:
            x = self._linear(layer, x, dual)
            self._activate(x, dual)
        return x

    def _outcome_heads(self, x: Tensor, dual: bool) -> Tensor:
        for place, layer in enumerate(self._outcomes):
            if place:
                self._activate(x, dual)
            x = self._linear(layer, x, dual)
        return x

    def _linear(self, layer: _Layer, x: Tensor, dual: bool) -> Tensor:
        h = self._buffer(layer, x, layer.after, like=x)
        for inputs, w, out in zip(layer.columns(x), layer.weights, layer.columns(h), strict=True):
            self._multiply(inputs, w, out)
        _top(h, dual).add_(layer.bias)
        self._tape.append((x,))
        return h

    def _activate(self, h: Tensor, dual: bool) -> None:
        """ELU of the rows of h, in place; the tangents below are multiplied by its derivative."""
        s = _top(h, dual)
        slope, whole = self._padded(len(self._tape) if dual else None, s)
        torch.clamp_max(s, 0.0, out=slope)
        whole.mul_(LOG2_E).exp2_()  # on many processors twice as fast as exp_
        if not dual:
            torch.maximum(s, slope.sub_(1.0), out=s)  # exp and a maximum take half the time of expm1
            self._tape.append((s,))
            return
        below = h[:, s.shape[1] :]
        self._tape.append((s, slope, below.clone()))
        torch.maximum(s, slope - 1.0, out=s)
        below.mul_(slope)

    def _back(self, layer: _Layer, g: Tensor, x: Tensor, dual: bool) -> Tensor:
        """Fill the gradients of a layer from that of its output, and return that of its input."""
        torch.sum(_top(g, dual), dim=1, out=layer.bias_slopes)
        parts = layer.columns(g)
        for inputs, part, slopes in zip(layer.columns(x), parts, layer.weight_slopes, strict=True):
            columns = part.shape[2]
            if THIN < columns < STEADY or (columns <= THIN and inputs.shape[2] % 4):
                _outer_sums(inputs, part, slopes)
            else:
                self._multiply(inputs.transpose(1, 2), part, slopes)
        if self._body and layer is self._body[0]:
            return g
        back = self._buffer((layer, "back"), x, layer.before, like=x)
        for part, w, out in zip(parts, layer.turned, layer.columns(back), strict=True):
            if part.shape[2] == 1:
                torch.mul(part, w, out=out)
            else:
                torch.bmm(part, w, out=out)
        return back

    def _multiply(self, left: Tensor, right: Tensor, out: Tensor) -> None:
        """The product of each member's matrices; with few columns the transposes are multiplied, which is many times faster."""
        if right.shape[2] > THIN:
            torch.bmm(left, right, out=out)
            return
        turned = self._buffer("turned", right.transpose(1, 2), left.shape[1], like=left)
        torch.bmm(right.transpose(1, 2), left.transpose(1, 2), out=turned)
        out.copy_(turned.transpose(1, 2))

    def _padded(self, owner: object, like: Tensor) -> tuple[Tensor, Tensor]:
        """A buffer with padding at its end, because the last few numbers of an array may be rounded differently."""
        key, size = (owner, *like.shape), like.numel()
        whole = self._buffers.get(key)
        if whole is None:
            whole = self._buffers[key] = like.new_zeros(size + -size % LANES)
        return whole[:size].view(like.shape), whole

    def _buffer(self, owner: object, rows: Tensor, width: int, like: Tensor) -> Tensor:
        key = (owner, rows.shape[1], width)
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = like.new_empty((*rows.shape[:2], width))
        return buffer


def _outer_sums(x: Tensor, g: Tensor, out: Tensor) -> None:
    """Products x'g of each member with few columns of g, where ``bmm`` would round differently with another number of members."""
    for column in range(g.shape[2]):
        torch.sum(x * g[..., column : column + 1], dim=1, out=out[..., column])


def _top(rows: Tensor, dual: bool) -> Tensor:
    """The rows without the tangents below them."""
    return rows[:, : rows.shape[1] // 2] if dual else rows


def _pairs(views: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(views[::2], views[1::2], strict=True)


def _views(flat: Tensor, shape: Shape) -> list[Tensor]:
    parameters, at = [], shape.extras
    for size in shape.parameters():
        parameters.append(flat[:, at : at + prod(size)].view(-1, *size))
        at += prod(size)
    return parameters


def _activate_back(g: Tensor, saved: tuple[Tensor, ...], dual: bool) -> None:
    """Turn the gradient of a layer's output into that of its input, in place."""
    if not dual:
        elu_backward(g, 1.0, 1.0, 1.0, True, saved[0], grad_input=g)
        return
    s, slope, tangent = saved
    top, below = g[:, : s.shape[1]], g[:, s.shape[1] :]
    # ELU'' = ELU' below zero and 0 above
    top.addcmul_(below * tangent, (s < 0).to(g.dtype))
    top.mul_(slope)
    below.mul_(slope)
