"""The keywords of the verbs, each stated once, and ``riesz.defaults``.

:class:`Settings` has one field per keyword, with its default, type, documentation and check. Everything else follows from it:
signatures and docstrings of the verbs (:mod:`riesz.api.signature`), the settings that a model keeps (``model.settings``), refits
(``dataclasses.replace``) and files. :class:`Options` repeats names and types for static type checkers, which cannot read them
from a dataclass; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, dataclass, field, fields
from numbers import Real
from typing import Any, Literal, TypedDict, get_type_hints

import numpy as np

from riesz.crossfit.calibration import KINDS, check_calibrate
from riesz.crossfit.candidates import CrossFit, calibrated
from riesz.crossfit.crossfit import Problem, cross_fit
from riesz.crossfit.trimming import Trimming, read_trim, trim
from riesz.errors import ArgumentError, DataError, FormulaError, LearnerError, nearest
from riesz.estimators import ESTIMATORS
from riesz.families import Quantile, find_family
from riesz.learners import Learner, find_learner
from riesz.syntax.check_arguments import shown

_MOST_REPEATS = 10_000
_UNSET: Any = None  # the default of a field that is never None once the settings are built

Check = Callable[[str, Any], Any]  # from a keyword's name and value to the value that is kept; raises a RieszError


class Options(TypedDict, total=False):
    """The keywords of the verbs for static type checkers; :class:`Settings` documents them."""

    learner: str | Learner | None
    estimator: str | None
    folds: Any
    repeats: int | None
    family: Literal["gaussian", "binomial", "poisson", "gamma"] | Quantile
    bounds: tuple[float, float] | None
    target: Literal["population", "sample"]
    weights: Any
    freq_weights: Any
    cluster: Any
    calibrate: Literal["auto", "levels", "isotonic"] | None
    trim: float | str | None
    na_action: Literal["drop", "raise"]
    seed: int
    n_jobs: int
    progress: bool | None
    context: Mapping[str, Any] | None


def _is_whole(value: Any, floats: bool = False) -> bool:
    """Whether a value is a whole number of any size; True and False are not, and 5.0 is only if ``floats``."""
    if isinstance(value, float):  # includes numpy's
        return floats and value.is_integer()
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _one_of(allowed: Iterable[str]) -> Check:
    def check(name: str, value: Any) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        hint = nearest(value, allowed) if isinstance(value, str) else ""
        raise LearnerError(f"{name}={value!r} is not known.{hint} Expected one of {', '.join(map(repr, allowed))}.")

    return check


def _whole(least: int) -> Check:
    def check(name: str, value: Any) -> int:
        if not _is_whole(value) or value < least:
            raise LearnerError(f"{name}={shown(value)}: expected a whole number, {least} or larger.")
        return int(value)

    return check


def _check_estimator(name: str, value: Any) -> str | None:
    return None if value is None else _one_of(ESTIMATORS)(name, value)


def _check_repeats(name: str, value: Any) -> int | None:
    if value is None:
        return None
    repeats: int = _whole(1)(name, value)
    if repeats > _MOST_REPEATS:
        raise LearnerError(
            f"repeats={shown(repeats)}: must be at most {_MOST_REPEATS:,}. Cross-fitting is repeated so that the answer does not "
            "depend on one split; a few repeats are enough."
        )
    return repeats


def _check_folds(name: str, value: Any) -> Any:
    number = value is None or (np.isscalar(value) and not isinstance(value, str))
    if not number:
        return value  # labels, which are checked against the data
    if not (_is_whole(value, floats=True) and value >= 1):
        raise LearnerError(
            f"folds={shown(value)}: expected a whole number (1 means no sample splitting) or fold labels."
        )
    return value.item() if isinstance(value, np.generic) else value


def _check_family(name: str, value: Any) -> str:
    """The family's name."""
    return (value if isinstance(value, Quantile) else find_family(value)).name


def _check_bounds(name: str, value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    numbers = isinstance(value, (tuple, list)) and all(isinstance(limit, Real) for limit in value)
    if not (numbers and len(value) == 2 and -np.inf < value[0] < value[1] < np.inf):
        raise DataError(f"bounds={value!r}: expected two finite numbers, the smaller first.")
    return value[0], value[1]


def _check_calibrate(name: str, value: Any) -> Any:
    return None if value is None else _one_of(KINDS)(name, value)


def _check_trim(name: str, value: Any) -> Any:
    read_trim(value)
    return value


def _check_progress(name: str, value: Any) -> bool | None:
    if value is not None and not isinstance(value, (bool, np.bool_)):
        raise LearnerError(f"progress={value!r}: expected True, False or None.")
    return None if value is None else bool(value)


def _check_context(name: str, value: Any) -> Mapping[str, Any] | None:
    if value is not None and not isinstance(value, Mapping):
        raise FormulaError(
            f"context is a {type(value).__name__}; expected a mapping from names to values, such as a dict."
        )
    return value


def _about(kind: str, text: str, check: Check | None = None, given: Any = None) -> dict[str, Any]:
    """The metadata of a field of :class:`Settings`: how its keyword is documented and checked.

    Parameters
    ----------
    kind, text : str
        Type and description as docstrings show them.
    check : callable, optional
        From name and value to the value that is kept. By default the value is kept as it is: arguments that refer to rows are
        checked when the data are read.
    given : type, optional
        The type that the keyword accepts, if it is not the field's type.
    """
    return {"kind": kind, "text": text, "check": check, "given": given}


@dataclass(frozen=True, eq=False)
class Settings:
    """The keywords of a verb, checked.

    Fields hold what was given, except that ``learner`` is always a Learner and ``estimator`` always a name: defaults are filled in.
    In a fit (``fit.model.settings``), arguments that were given as arrays are pandas Series with one value per row of the data, and
    ``context`` holds only the variables that formula and policies name.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from riesz.settings import Settings
    >>> settings = Settings(learner="linear", seed=3)
    >>> settings.estimator, replace(settings, folds=2).seed
    ('dr', 3)
    >>> replace(settings, folds=0)
    Traceback (most recent call last):
    ...
    riesz.errors.LearnerError: folds=0: expected a whole number (1 means no sample splitting) or fold labels.
    """

    learner: Learner = field(
        default=_UNSET,
        metadata=_about(
            "str or Learner, optional",
            'How mu and the Riesz representer are learned: ``"madnet"``, ``"linear"`` or another name, or a '
            "learner with its settings such as ``riesz.Stack([riesz.Splines(), riesz.Boosting()])``. By default "
            '``riesz.defaults.learner``, which is ``"auto"``: a stack of networks, splines and boosted trees.',
            lambda name, value: chosen(value),
            given=str | Learner | None,
        ),
    )
    estimator: str = field(
        default=_UNSET,
        metadata=_about(
            '{"dr", "tmle", "direct", "ipw"}, optional',
            "One-step, targeted, plug-in or weighting; the last two have no standard error. By default one-step, "
            "or the plug-in for a learner of mu alone, such as ``riesz.KernelEmbedding``.",
            _check_estimator,
            given=str | None,
        ),
    )
    folds: Any = field(
        default=5,
        metadata=_about(
            "int, str or array_like",
            "Number of cross-fitting folds; 1 means no sample splitting. A column's name, or an array with one "
            "value per row, gives fold labels. With two-way clusters there are ``folds`` x ``folds`` splits. If the "
            "outcome is continuous, identical rows stay in one fold and are fitted as one row, as with ``freq_weights``.",
            _check_folds,
        ),
    )
    repeats: int | None = field(
        default=None,
        metadata=_about(
            "int, optional",
            "Number of times that cross-fitting is repeated, each with new folds. A stack combines the predictions of all "
            "repeats; of a single learner the median estimate is reported. By default the number that the learner recommends: six "
            "for the default stack with up to 800 rows (or clusters), three with up to 2000, two with up to 5000, otherwise one; "
            "three for MADNet alone with up to 2000; one with fold labels or ``folds=1``.",
            _check_repeats,
        ),
    )
    family: str = field(
        default="gaussian",
        metadata=_about(
            '{"gaussian", "binomial", "poisson", "gamma"} or Quantile',
            'The kind of outcome. ``"binomial"``: in [0, 1], and mu is a probability; ``"poisson"``: counts, or other outcomes '
            'of 0 or larger; ``"gamma"``: larger than 0, with a standard deviation in proportion to the mean. Learners then learn '
            "the logit or the logarithm of mu, and ``tmle`` uses a submodel of that form. Moments act on mu itself, so that "
            "parameters stay the same. With ``riesz.Quantile(0.5)`` mu is a conditional quantile, and parameters are averages of "
            "conditional quantiles. A learner that cannot do this is refused; a stack leaves it out.",
            _check_family,
            given=Literal["gaussian", "binomial", "poisson", "gamma"] | Quantile,
        ),
    )
    bounds: tuple[float, float] | None = field(
        default=None,
        metadata=_about(
            "(low, high), optional",
            "Known limits of the outcome, for a logistic ``tmle``.",
            _check_bounds,
        ),
    )
    target: Literal["population", "sample"] = field(
        default="population",
        metadata=_about(
            '{"population", "sample"}',
            '``"sample"`` estimates the effect in this sample, which has a smaller standard error.',
            _one_of(("population", "sample")),
        ),
    )
    weights: Any = field(
        default=None,
        metadata=_about("str or array_like, optional", "Sampling weights: a column's name or one number per row."),
    )
    freq_weights: Any = field(
        default=None,
        metadata=_about(
            "str or array_like, optional",
            "Frequency weights: the number of identical rows that each row represents.",
        ),
    )
    cluster: Any = field(
        default=None,
        metadata=_about(
            "str, two str, or array_like, optional",
            "Clusters: each stays in one fold, and standard errors allow for them. Two names give two-way clustering.",
        ),
    )
    calibrate: Literal["auto", "levels", "isotonic"] | None = field(
        default="auto",
        metadata=_about(
            '{"auto", "levels", "isotonic"} or None',
            "Correct out-of-fold predictions where, among rows with similar predictions, they are wrong on average; for moments "
            'that read mu in the arms of a treatment. ``"levels"`` adds the mean error of mu in each block of similar rows, '
            '``"isotonic"`` replaces mu and rr by their means in blocks (van der Laan, Luedtke and Carone 2024), and ``"auto"`` is '
            '``"levels"`` for stacks and None for single learners. See ``fit.bootstrap()``.',
            _check_calibrate,
        ),
    )
    trim: float | str | None = field(
        default=None,
        metadata=_about(
            "float or str, optional",
            'Cap the absolute Riesz representer at a number (``20``) or at a quantile over the rows (``"99%"``). The summary and '
            "``fit.trimming`` show how many rows are capped and how far the estimate moves.",
            _check_trim,
        ),
    )
    na_action: Literal["drop", "raise"] = field(
        default="drop",
        metadata=_about(
            '{"drop", "raise"}',
            "What to do with rows that have missing values.",
            _one_of(("drop", "raise")),
        ),
    )
    seed: int = field(
        default=0,
        metadata=_about("int", "Determines folds and fits: the same seed gives the same estimates.", _whole(0)),
    )
    n_jobs: int = field(default=1, metadata=_about("int", "Number of threads for the fits.", _whole(1)))
    progress: bool | None = field(
        default=None,
        metadata=_about(
            "bool, optional",
            "Show a progress bar. By default one appears in a terminal or notebook if the fits take longer than "
            "``riesz.crossfit.crossfit.PATIENCE``, one and a half seconds, and disappears when they are done.",
            _check_progress,
        ),
    )
    context: Mapping[str, Any] | None = field(
        default=None,
        metadata=_about(
            "mapping, optional",
            "Where formulas and policies look up names that are not columns. By default the variables where the call was made.",
            _check_context,
        ),
    )

    def __post_init__(self) -> None:
        for keyword in fields(self):
            check: Check | None = keyword.metadata["check"]
            if check is not None:
                object.__setattr__(self, keyword.name, check(keyword.name, getattr(self, keyword.name)))
        estimator: str | None = self.estimator
        if estimator is None:
            object.__setattr__(self, "estimator", "dr" if self.learner.learns_rr else "direct")
        self._check_learner()

    def _check_learner(self) -> None:
        """Whether learner, estimator and trimming go together."""
        estimator, learner = ESTIMATORS[self.estimator], self.learner.describe(self.family)
        if not self.learner.learns_rr and estimator.needs_rr:
            raise LearnerError(
                f"estimator={self.estimator!r} needs a Riesz representer, and {learner} learns mu alone. Use estimator='direct', "
                "which has no standard error, or another learner, such as learner='linear'."
            )
        if estimator.of_means and not find_family(self.family).is_mean:
            raise LearnerError(
                f"estimator={self.estimator!r} is for the mean of the outcome, and with family={self.family!r} mu is a quantile. "
                "Use estimator='dr', or 'direct', which has no standard error."
            )
        if estimator.weighs and not self.learner.weighs(self.family):
            raise LearnerError(
                f"estimator={self.estimator!r} weights the outcome by rr, and with family={self.family!r} the rr of {learner} "
                f"corrects the errors of its {find_family(self.family).index} and is not such a weight. Use estimator='dr' or "
                "'tmle', or another learner."
            )
        if not self.learner.learns_rr and self.trim is not None:
            raise LearnerError(f"trim= caps the Riesz representer, and {learner} learns mu alone. Use trim=None.")

    @property
    def trimming(self) -> Trimming | None:
        """Where ``trim`` caps the absolute Riesz representer."""
        return read_trim(self.trim)

    def cross_fit(self, problems: Sequence[Problem]) -> list[CrossFit]:
        """Fit every split of every problem with the learner of these settings; calibrate and trim the predictions."""
        for problem in problems:
            check_calibrate(self.calibrate, problem.design)
        crossfits = cross_fit(problems, self.learner, self.n_jobs, self.progress)
        return [
            trim(calibrated(crossfit, self.calibrate, problem.design), self.trimming, problem.design)
            for problem, crossfit in zip(problems, crossfits, strict=True)
        ]


def keywords() -> dict[str, tuple[Field[Any], Any]]:
    """The fields of :class:`Settings` by name, each with the type that the keyword accepts.

    Examples
    --------
    >>> from riesz.settings import keywords
    >>> keywords()["seed"][1]
    <class 'int'>
    """
    types = get_type_hints(Settings)
    return {field.name: (field, field.metadata["given"] or types[field.name]) for field in fields(Settings)}


class Defaults:
    """Defaults that hold until you change them.

    Attributes
    ----------
    learner : str or Learner
        The learner that verbs use if ``learner`` is not given: ``"auto"`` until you change it.

    Examples
    --------
    >>> import riesz
    >>> riesz.defaults.learner
    'auto'
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> with riesz.defaults.using(learner="linear"):
    ...     print(riesz.ate("y ~ treat(a) * (x1 + x2)", data).model.learner.describe("gaussian"))
    Linear (ridge, rr constrained)
    """

    def __init__(self, learner: str | Learner = "auto") -> None:
        self._learner = learner

    @property
    def learner(self) -> str | Learner:
        """The learner that verbs use if ``learner`` is not given.

        Examples
        --------
        >>> import riesz
        >>> riesz.defaults.learner
        'auto'
        """
        return self._learner

    @learner.setter
    def learner(self, learner: str | Learner) -> None:
        find_learner(learner)
        self._learner = learner

    def __setattr__(self, name: str, value: object) -> None:
        if name not in ("learner", "_learner"):
            raise ArgumentError(
                f"riesz.defaults has no {name!r}.{nearest(name, ['learner'])} Its only setting is learner; everything else is a "
                "keyword of the verbs."
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"Defaults(learner={self._learner!r})"

    @contextmanager
    def using(self, *, learner: str | Learner) -> Iterator[None]:
        """Change a default inside a ``with`` block.

        Examples
        --------
        >>> import riesz
        >>> with riesz.defaults.using(learner="linear"):
        ...     riesz.defaults.learner
        'linear'
        >>> riesz.defaults.learner
        'auto'
        """
        before = self._learner
        self.learner = learner
        try:
            yield
        finally:
            self._learner = before


defaults = Defaults()


def chosen(learner: object) -> Learner:
    """The learner that a name stands for, or the learner itself; the default one for None."""
    return find_learner(defaults.learner if learner is None else learner)
