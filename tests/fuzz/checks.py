"""Run a case and judge what came of it.

A case passes when the fit has the expected rows, finite estimates and positive standard errors, and everything that a reader does
with a fit works; or when it is refused by a :class:`riesz.RieszError`. Any other exception, and any warning that is not
riesz's own, is a defect.
"""

from __future__ import annotations

import pickle
import re
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import riesz
from fuzz.cases import Case, draw_case

QUICK = riesz.MADNet(width=8, depth=1, head_width=4, networks=1, repeats=1, stages=(riesz.Stage(1e-2, 3, 3),))
SMALL = [
    QUICK,
    riesz.MADNet(width=8, depth=1, networks=1, repeats=1, stages=(riesz.Stage(1e-2, 3, 3),)),
    riesz.RieszNet(width=8, depth=1, stages=(riesz.Stage(1e-2, 3, 3),)),
    riesz.DragonNet(width=8, depth=1, stages=(riesz.Stage(1e-2, 3, 3),)),
    riesz.Stack([QUICK, riesz.Splines(), riesz.Boosting(trees=5, boosters=1)]),
]


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Attributes
    ----------
    refused : str
        The message of the refusal; empty for a fit.
    defects : tuple of str
    """

    refused: str
    defects: tuple[str, ...]


def attempt(seed: int, network: bool) -> tuple[int, str, Outcome]:
    """Draw and run the case of a seed on one thread; the call is told, too."""
    case = draw_case(seed, network)
    with threadpool_limits(1):
        return seed, f"riesz.{case.verb}({case.formula!r}, {_shown(case.options)}) {case.words}", run(case, network)


def _shown(options: dict[str, Any]) -> str:
    parts = [f"{key}={'an array' if isinstance(value, np.ndarray) else repr(value)}" for key, value in options.items()]
    return ", ".join(parts)


def fit_of(case: Case, network: bool) -> riesz.Results:
    """The fit of a case, or the error of its refusal."""
    learner: Any = SMALL[case.seed % len(SMALL)] if network else "linear"
    fit: riesz.Results = getattr(riesz, case.verb)(case.formula, case.data, learner=learner, **case.options)
    return fit


def run(case: Case, network: bool) -> Outcome:
    """Run one case."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", riesz.RieszWarning)
        try:
            fit = fit_of(case, network)
        except riesz.RieszError as error:
            return Outcome(str(error), tuple(_bad_words(str(error))))
        except Exception as error:
            return Outcome("", (f"fit: {_short(error)}",))
        if case.refused:
            return Outcome("", (f"accepted, though {case.spoiled[-1]}",))
        return Outcome("", (*_numbers(fit, case), *_questions(fit, case)))


def _short(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:2])[:300]}"


def _bad_words(message: str) -> list[str]:
    """A refusal is a sentence, without the escape codes and class names of other packages."""
    found = []
    if "\x1b" in message or not message.strip().endswith((".", "?", ")")):
        found.append(f"refusal is not a sentence: {message!r}")
    if re.search(r"\b(KeyError|IndexError|AttributeError|LinAlgError|AssertionError)\b", message):
        found.append(f"refusal repeats a raw error: {message!r}")
    return found


def _numbers(fit: Any, case: Case) -> list[str]:
    found = []
    if fit.nobs != case.rows:
        found.append(f"nobs is {fit.nobs}, expected {case.rows}")
    if not np.isfinite(fit.params).all():
        found.append(f"estimates {fit.params.tolist()}")
    debiased = case.options.get("estimator", "dr") in ("dr", "tmle")
    errors = fit.bse.to_numpy()
    if debiased and not (np.isfinite(errors) & (errors > 0)).all():
        found.append(f"standard errors {errors.tolist()}")
    if not debiased and not np.isnan(errors).all():
        found.append(f"{case.options['estimator']} has standard errors {errors.tolist()}")
    return found


def _questions(fit: Any, case: Case) -> list[str]:
    """What a reader asks of a fit; a refusal is an answer, too."""
    head = case.frame.head(7)
    questions = {
        "summary": lambda: (
            str(fit.summary()),
            fit.summary().as_html(),
            fit.summary().as_latex(),
            fit.summary().as_csv(),
        ),
        "warnings": lambda: repr(fit.warnings()),
        "tables": lambda: (fit.tidy(), fit.glance(), fit.augment(), fit.estimates, fit.conf_int(joint=True)),
        "learners": lambda: (fit.candidates, fit.stacking, fit.details()),
        "diagnostics": lambda: (
            fit.diagnostics(),
            fit.balance(),
            fit.stability(),
            fit.influential(3, fit.params.index[0]),
        ),
        "overlap": lambda: fit.overlap(),
        "sensitivity": lambda: str(fit.sensitivity()),
        "tests": lambda: fit.wald_test(np.eye(len(fit.params))),
        "by": lambda: str(fit.by(np.arange(len(case.frame)) % 2).summary()),
        "blp": lambda: str(fit.blp("~ 1").summary()),
        "contrast": lambda: str(riesz.contrast(f"2 * `{fit.params.index[0]}`", fit).summary()),
        "with_cov": lambda: str(fit.with_cov(np.arange(len(case.frame)) // 3).summary()),
        "predict": lambda: fit.predict(head),
        "file": lambda: _stored(fit),
    }
    found = []
    for name, ask in questions.items():
        try:
            problem = ask()
        except riesz.RieszError as error:
            found += [f"{name}: {word}" for word in _bad_words(str(error))]
            continue
        except Exception as error:
            found.append(f"{name}: {_short(error)}")
            continue
        if name == "file" and problem:
            found.append(f"file: {problem}")
    return found


def _stored(fit: Any) -> str:
    """What changed on the way through a file and through pickle; nothing, it is hoped."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit.riesz"
        fit.save(path)
        for again in (riesz.load(path), pickle.loads(pickle.dumps(fit))):
            if not np.array_equal(again.params, fit.params) or not np.array_equal(again.bse, fit.bse, equal_nan=True):
                return "the estimates are not the same"
            if str(again.summary()) != str(fit.summary()):
                return "the summary is not the same"
            pd.testing.assert_frame_equal(again.augment(), fit.augment(), check_dtype=False)
    return ""
