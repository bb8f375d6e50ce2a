"""Fits from files, and through pickle, which takes them the same way."""

from __future__ import annotations

import copyreg
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from riesz.errors import DataError, RieszError
from riesz.estimators import ESTIMATORS
from riesz.results import Results
from riesz.storage import read_fit
from riesz.storage.archive import damaged


def load(path: str | os.PathLike[str]) -> Results:
    """Read a fit that ``fit.save()`` wrote.

    Nothing in the file is run: it holds arrays and JSON. A file that is damaged, was altered, is something else or was written by a
    newer version is a :class:`~riesz.errors.DataError`.

    Parameters
    ----------
    path : path

    Returns
    -------
    Results
        With the summary, tables, diagnostics, ``with_cov``, ``by`` and ``blp`` of the fit that was saved; ``predict`` works where
        formula and estimand are text and numbers (see :meth:`Results.save`).

    Examples
    --------
    >>> import tempfile, pathlib, riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     riesz.ate("y ~ treat(a) * .", data, learner="linear").save(pathlib.Path(folder) / "fit.riesz")
    ...     riesz.load(pathlib.Path(folder) / "fit.riesz").nobs
    500
    """
    contents = read_fit(path)
    if contents.model.estimator not in ESTIMATORS:
        raise DataError(
            f"The fit in {os.fspath(path)!r} uses estimator={contents.model.estimator!r}, which is not known here. Put it in "
            "riesz.estimators.ESTIMATORS first, as where the fit was made."
        )
    try:
        fit = Results(contents.model, contents.crossfit, contents.clusters)
        same = np.allclose(fit.params, contents.params, rtol=1e-10, atol=0, equal_nan=True) and np.allclose(
            fit.cov_params(), contents.covariance, rtol=1e-8, atol=1e-300, equal_nan=True
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RieszError) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from None
    if not same:
        raise damaged(path, "its estimates do not follow from its predictions")
    return fit


def _pickled(fit: Results) -> tuple[Callable[[bytes], Results], tuple[bytes]]:
    """What pickle makes of a fit, so that processes can send it to each other: the bytes of its file."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "fit.riesz"
        fit.save(file)
        return _unpickled, (file.read_bytes(),)


def _unpickled(content: bytes) -> Results:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "fit.riesz"
        file.write_bytes(content)
        return load(file)


copyreg.pickle(Results, _pickled)
