"""Fits from files and from pickles, which have the same content."""

from __future__ import annotations

import copyreg
import os
from collections.abc import Callable

import numpy as np

from riesz.results.effects import Effects, EffectsParts, Words
from riesz.results.file import (
    CONTENT_ERRORS,
    Contents,
    derived_from_bytes,
    derived_to_bytes,
    fit_from_bytes,
    fit_to_bytes,
    read_fit,
)
from riesz.results.fit import Results
from riesz.storage.archive import damaged
from riesz.syntax.check_arguments import checked


@checked("riesz.load()")
def load(path: str | os.PathLike[str], largest: float | None = None) -> Results:
    """Read a fit that ``fit.save()`` wrote.

    Loading runs no code: a file holds arrays and JSON. ``predict`` evaluates its formula only if it names columns and known
    functions, and its policies are arithmetic, so it is safe to load a file from an unknown source. A file that is damaged,
    altered, of another kind, too large or written by a newer version raises a :class:`~riesz.errors.DataError`.

    Parameters
    ----------
    path : path
    largest : float, optional
        The largest number of bytes that the file may unpack to, because a small file may be made to unpack to more than the
        memory holds. By default 1 GB, or 100 times the size of the file if that is more. For a larger fit that you trust use,
        for example, ``largest=8e9``.

    Returns
    -------
    Results
        With the summary, tables, diagnostics, ``with_cov``, ``by`` and ``blp`` of the fit that was saved; ``predict`` works if
        formula and estimand are text and numbers (see :meth:`Results.save`).

    Examples
    --------
    >>> import tempfile, pathlib, riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     riesz.ate("y ~ treat(a) * .", data, learner="linear").save(pathlib.Path(folder) / "fit.riesz")
    ...     riesz.load(pathlib.Path(folder) / "fit.riesz").params.round(2).to_dict()
    {'ATE': 1.46}
    """
    contents = read_fit(path, largest)
    return _results(contents, os.fspath(path))


def _results(contents: Contents, name: object) -> Results:
    """The results in a file, after a check that its estimates follow from its predictions."""
    try:
        with np.errstate(all="ignore"):  # squares of altered numbers may overflow; their estimates then differ
            fit = Results(
                contents.model, contents.crossfit, contents.clusters, alternatives=contents.alternatives or None
            )
            same = np.allclose(fit.params, contents.params, rtol=1e-10, atol=0, equal_nan=True) and np.allclose(
                fit.cov_params(), contents.covariance, rtol=1e-8, atol=1e-300, equal_nan=True
            )
    except CONTENT_ERRORS as error:
        raise damaged(name, f"{type(error).__name__}: {error}") from None
    if not same:
        raise damaged(name, "its estimates do not follow from its predictions")
    return fit


def _pickled(fit: Results) -> tuple[Callable[[bytes], Results], tuple[bytes]]:
    """How pickle stores a fit, for example to send it to another process: as the content of its file."""
    return _unpickled, (fit_to_bytes(fit._contents()),)


def _unpickled(content: bytes) -> Results:
    return _results(fit_from_bytes(content), "The pickled fit")


def _pickled_effects(effects: Effects) -> tuple[Callable[[bytes], Effects], tuple[bytes]]:
    """The same for parameters derived from a fit."""
    parts = effects.parts
    words = parts.words
    rest = {
        "estimated": (parts.value, parts.covariance, parts.variation),
        "words": [
            words.title,
            words.subtitle,
            [list(fact) for fact in words.facts],
            list(words.notes),
            words.hypothesis,
        ],
        "restrictions": dict(parts.hypotheses),
        "nobs": parts.nobs,
        "covariance_notes": list(parts.covariance_notes),
    }
    return _unpickled_effects, (derived_to_bytes(parts.model, parts.clusters, parts.labels, rest),)


def _unpickled_effects(content: bytes) -> Effects:
    model, clusters, labels, rest = derived_from_bytes(content)
    title, subtitle, facts, notes, hypothesis = rest["words"]
    words = Words(title, subtitle, [(name, value) for name, value in facts], notes, hypothesis)
    value, covariance, variation = rest["estimated"]
    return Effects(
        EffectsParts(
            model=model,
            clusters=clusters,
            labels=labels,
            value=value,
            covariance=covariance,
            variation=variation,
            words=words,
            hypotheses=rest["restrictions"],
            nobs=rest["nobs"],
            covariance_notes=rest["covariance_notes"],
        )
    )


copyreg.pickle(Results, _pickled)
copyreg.pickle(Effects, _pickled_effects)
