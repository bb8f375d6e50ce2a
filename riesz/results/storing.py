"""Fits in files."""

from __future__ import annotations

import os
from typing import Self

from riesz.results.core import Core
from riesz.results.file import Contents, write_fit


class Storing(Core):
    """Saving a fit."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file that :func:`riesz.load` reads, on any machine.

        The file is a zip archive of arrays and JSON, without pickle: loading it cannot run code. It holds **all columns of the
        data**, so mind who may see it; besides these the design, folds, predictions, settings and what Linear,
        KernelEmbedding and the networks learned. Columns of nested values or with time zones are left out.
        It does not hold functions: after loading, ``predict`` explains itself where the estimand is a custom moment or a policy
        given as a function, where the formula calls functions of your own, or where the learner cannot be stored.
        ``pickle.dumps(fit)``, and with it joblib and multiprocessing, sends the same content.

        Parameters
        ----------
        path : path
            Such as ``"fit.riesz"``; an existing file is replaced once the new one is complete. What goes wrong (a full disk, a
            folder that cannot be written) is a :class:`~riesz.errors.DataError`, and leaves an existing file as it was.

        Examples
        --------
        >>> import tempfile, pathlib, riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * .", data, learner="linear")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.save(pathlib.Path(folder) / "fit.riesz")
        ...     again = riesz.load(pathlib.Path(folder) / "fit.riesz")
        >>> str(again) == str(fit)
        True
        """
        write_fit(path, self._contents())

    def _contents(self) -> Contents:
        return Contents(self.model, self._crossfit, self._clusters, self._value, self._covariance)

    def __copy__(self) -> Self:
        return self  # a fit does not change

    def __deepcopy__(self, memo: object) -> Self:
        return self
