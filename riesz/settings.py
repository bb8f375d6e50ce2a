"""What a verb does when it is not told: ``riesz.defaults``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from riesz.errors import ArgumentError, nearest
from riesz.learners import Learner, find_learner


class Defaults:
    """Settings that hold until you change them.

    Attributes
    ----------
    learner : str or Learner
        What verbs learn with when ``learner`` is not given: ``"madnet"`` unless you say otherwise.

    Examples
    --------
    >>> import riesz
    >>> riesz.defaults.learner
    'madnet'
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> with riesz.defaults.using(learner="linear"):
    ...     print(riesz.ate("y ~ treat(a) * (x1 + x2)", data).model.learner.describe("gaussian"))
    Linear (ridge, rr constrained)
    """

    def __init__(self, learner: str | Learner = "madnet") -> None:
        self._learner = learner

    @property
    def learner(self) -> str | Learner:
        """What verbs learn with when they are not told.

        Examples
        --------
        >>> import riesz
        >>> riesz.defaults.learner
        'madnet'
        """
        return self._learner

    @learner.setter
    def learner(self, learner: str | Learner) -> None:
        find_learner(learner)
        self._learner = learner

    def __setattr__(self, name: str, value: object) -> None:
        if name not in ("learner", "_learner"):
            raise ArgumentError(
                f"riesz.defaults has no {name!r}.{nearest(name, ['learner'])} It has learner; all else is a keyword of the verbs."
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"Defaults(learner={self._learner!r})"

    @contextmanager
    def using(self, *, learner: str | Learner) -> Iterator[None]:
        """Other settings inside a ``with`` block.

        Examples
        --------
        >>> import riesz
        >>> with riesz.defaults.using(learner="linear"):
        ...     riesz.defaults.learner
        'linear'
        >>> riesz.defaults.learner
        'madnet'
        """
        before = self._learner
        self.learner = learner
        try:
            yield
        finally:
            self._learner = before


defaults = Defaults()


def chosen(learner: str | Learner | None) -> Learner:
    """The learner that was asked for, or the default when none was."""
    return find_learner(defaults.learner if learner is None else learner)
