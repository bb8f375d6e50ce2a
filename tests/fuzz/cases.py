"""A random question from a seed: a table with odd columns, a formula over it, a verb and its options.

Everything is drawn from one generator, so a seed alone reproduces a case. The expected number of rows is worked out here,
from the table as it was made, and not by the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any

import numpy as np
import pandas as pd
from questions import QUESTIONS, is_continuous, settings

Rng = np.random.Generator

#: The registered verbs; some are drawn more often.
VERBS = ["ate", "ate", "att", "atc", "ape", "mean", "ade", "ade", "ipe", "shift"]
VERBS += [verb for verb in QUESTIONS if verb not in VERBS]

NAMES = [
    "age",
    "x1",
    "x 2",
    "x.3",
    "größe",
    "treat",
    "self",
    "class",
    "log",
    "np",
    "data",
    "mu",
    "name",
    "T",
    "index",
    "weights",
    "y_hat",
    "Q('x')",
    "a:b",
    "1st",
    "%share",
    "x-y",
    "frame",
    "context",
    "level_0",
]
TREATMENTS = ["a", "dose", "my treatment", "treat", "D", "arm.1"]
OUTCOMES = ["y", "the outcome", "Y", "income", "y.1"]


@dataclass
class Case:
    """One call into the package.

    Attributes
    ----------
    seed : int
    verb : str
    formula : str
    data : DataFrame
        pandas, polars or pyarrow.
    frame : pandas.DataFrame
        The same table in pandas.
    options : dict
        Keywords of the verb.
    rows : int
        How many rows the fit should report.
    spoiled : list of str
        What was made wrong on purpose, so that a refusal is expected.
    words : list of str
        What is special about the case, for reports.
    refused : bool
        Whether an argument is so wrong that the call must be refused.
    """

    seed: int
    verb: str
    formula: str
    data: Any
    frame: pd.DataFrame
    options: dict[str, Any]
    rows: int
    spoiled: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    refused: bool = False


def quoted(name: str) -> str:
    """A column's name as a formula wants it."""
    return name if name.isidentifier() and not iskeyword(name) else f"`{name}`"


def draw_case(seed: int, network: bool) -> Case:
    """Draw the case of a seed; those for networks are a little smaller."""
    rng = np.random.default_rng([seed, int(network)])
    n = int(rng.integers(60, 160 if network else 400))
    verb = str(rng.choice(VERBS))
    x = {name: covariate(rng, n) for name in rng.choice(NAMES, size=int(rng.integers(1, 6)), replace=False)}
    treatment = str(rng.choice([name for name in TREATMENTS if name not in x]))
    outcome = str(rng.choice(OUTCOMES))
    score = np.nan_to_num(sum((_numbers(column) for column in x.values()), np.zeros(n)))
    score = (score - score.mean()) / (score.std() or 1.0)
    continuous = is_continuous(QUESTIONS[verb]) or (verb == "mean" and rng.random() < 0.3)
    a, latent = draw_continuous(rng, score) if continuous else draw_arms(rng, score, verb)
    y, family = draw_outcome(rng, score, latent)
    frame = pd.DataFrame({outcome: y, treatment: a, **x})
    case = Case(seed, verb, "", None, frame, {"seed": int(rng.integers(0, 1000)), "progress": False}, n)
    if family == "binomial":
        case.options["family"] = "binomial"
    _spoil(rng, case, outcome, treatment, list(x))
    _options(rng, case, network)
    used = _formula(rng, case, outcome, treatment, list(x))
    _question(rng, case, treatment, used)
    case.rows = _expected_rows(case, [outcome, treatment, *used])
    if rng.random() < 0.06:
        _wrong_argument(rng, case)
    case.data = _container(rng, case)
    return case


def covariate(rng: Rng, n: int) -> Any:
    """A column of some type, often with something odd about it."""
    z = rng.normal(size=n)
    makers: list[Callable[[], Any]] = [
        lambda: z,
        lambda: z.astype(np.float32),
        lambda: np.exp(2 * z),
        lambda: 1e6 * z + 1e8,
        lambda: 1e-7 * z,
        lambda: np.round(z),
        lambda: rng.integers(0, 4, n).astype(np.int8),
        lambda: rng.integers(0, 4, n),
        lambda: np.where(rng.random(n) < 0.4, 0.0, np.abs(z)),
        lambda: z > 0,
        lambda: pd.array(rng.integers(0, 9, n), dtype="Int64"),
        lambda: pd.array(z, dtype="Float64"),
        lambda: pd.array(z > 0, dtype="boolean"),
        lambda: pd.array(rng.choice(["u", "v", "w"], n), dtype="string"),
        lambda: pd.Series(rng.choice(["north", "south"], n), dtype=object).to_numpy(),
        lambda: pd.Categorical(
            rng.choice(["lo", "mid", "hi"], n), categories=["lo", "mid", "hi", "never"], ordered=True
        ),
        lambda: pd.Categorical(rng.integers(1, 4, n)),
        lambda: np.full(n, 3.0),
        lambda: pd.cut(pd.Series(z), [-np.inf, -0.5, 0.5, np.inf]),
    ]
    return makers[int(rng.choice(len(makers), p=_weights(len(makers), first=6)))]()


def _weights(count: int, first: int) -> Any:
    weight = np.ones(count)
    weight[0] = first
    return weight / weight.sum()


def _numbers(column: Any) -> Any:
    made = pd.Series(column)
    if isinstance(made.dtype, pd.CategoricalDtype):
        return made.cat.codes.to_numpy(dtype=float)
    if made.dtype == object or isinstance(made.dtype, pd.StringDtype):
        return pd.factorize(made)[0].astype(float)
    values = made.to_numpy(dtype=float, na_value=0.0)
    return (values - values.mean()) / (values.std() or 1.0)


def draw_continuous(rng: Rng, score: Any) -> tuple[Any, Any]:
    """A continuous treatment in some units, and what the outcome is made from."""
    latent = 0.4 * score + rng.normal(size=len(score))
    scale, centre = rng.choice([1.0, 1.0, 1.0, 1e-3, 1e4]), rng.choice([0.0, 0.0, 10.0, -1e4])
    made = centre + scale * latent
    kind = rng.random()
    if kind < 0.1:
        made = np.round(made, 1)
    elif kind < 0.2:
        return pd.array(made, dtype="Float64"), latent
    return made, latent


def draw_arms(rng: Rng, score: Any, verb: str) -> tuple[Any, Any]:
    """Two or more arms under some labels, and their numbers."""
    count = 2 if verb == "ape" or rng.random() < 0.7 else int(rng.integers(3, 5))
    strength = rng.choice([0.3, 1.0, 2.0])
    logits = np.outer(strength * score, np.arange(count) / (count - 1)) + rng.gumbel(size=(len(score), count))
    code = logits.argmax(axis=1)
    code[:count] = np.arange(count)
    labels: list[list[Any]] = [
        list(range(count)),
        [float(one) for one in range(count)],
        [f"arm {one}" for one in range(count)],
        ["b", "a", "c", "d"][:count],
        [1_000_001 + one for one in range(count)],
        [10**one for one in range(count)],
    ]
    if count == 2:
        labels += [[False, True], [-1, 1], ["no", "yes"]]
    own = labels[int(rng.integers(len(labels)))]
    values = pd.Series([own[one] for one in code])
    if rng.random() < 0.15:
        values = values.astype("category")
    if rng.random() < 0.1 and values.dtype == np.int64:
        values = values.astype("Int64")
    return values, code.astype(float)


def draw_outcome(rng: Rng, score: Any, latent: Any) -> tuple[Any, str]:
    """An outcome, and the family to fit it with."""
    index = 0.5 * score + 0.7 * latent
    y = index + rng.normal(size=len(score))
    kind = rng.random()
    if kind < 0.1:
        return (rng.random(len(score)) < 1 / (1 + np.exp(-index))).astype(int), str(
            rng.choice(["gaussian", "binomial"])
        )
    if kind < 0.15:
        return rng.poisson(np.exp(np.clip(0.3 * index, -3, 3))), "gaussian"
    if kind < 0.2:
        return index + rng.standard_t(2, size=len(score)), "gaussian"
    if kind < 0.25:
        return np.exp(y), "gaussian"
    return rng.choice([1.0, 1.0, 1e-6, 1e6]) * y + rng.choice([0.0, 0.0, 1e4]), "gaussian"


def _spoil(rng: Rng, case: Case, outcome: str, treatment: str, names: list[str]) -> None:
    """Missing values, in which case rows are dropped; and now and then something that no fit can use."""
    frame, n = case.frame, len(case.frame)
    for name in [outcome, treatment, *names]:
        if rng.random() < 0.12:
            gone = rng.random(n) < rng.choice([0.02, 0.1])
            if frame[name].dtype == bool:
                frame[name] = frame[name].astype("boolean")
            elif frame[name].dtype.kind in "iu" and not isinstance(frame[name].dtype, pd.api.extensions.ExtensionDtype):
                frame[name] = frame[name].astype(float) if rng.random() < 0.5 else frame[name].astype("Int64")
            frame.loc[gone, name] = None
            case.words.append(f"{name} is missing on {int(gone.sum())} rows")
    if rng.random() < 0.03:
        name = str(rng.choice(names))
        if frame[name].dtype == np.float64:
            frame.loc[int(rng.integers(n)), name] = np.inf
            case.spoiled.append(f"{name} has an infinite value")
    if rng.random() < 0.02:
        frame["when"] = pd.date_range("2020", periods=n)
        case.spoiled.append("a column of dates")


def _options(rng: Rng, case: Case, network: bool) -> None:
    frame, options, n = case.frame, case.options, len(case.frame)
    options["folds"] = int(rng.choice([2, 2, 3, 5] if network else [1, 2, 3, 5, 5]))
    if rng.random() < 0.2:
        options["estimator"] = str(rng.choice(["dr", "tmle", "direct", "ipw"]))
    if rng.random() < 0.15:
        options["target"] = "sample"
    if rng.random() < 0.15:
        options["repeats"] = 2
    if rng.random() < 0.15:
        options["trim"] = [10, 50.0, "99%"][int(rng.integers(3))]
    if rng.random() < 0.15:
        frame["w w"] = rng.choice([0.5, 1.0, 2.0, 0.0], n, p=[0.3, 0.3, 0.3, 0.1])
        options["weights"] = "w w" if rng.random() < 0.7 else frame["w w"].to_numpy()
    if rng.random() < 0.12:
        frame["freq"] = rng.integers(0, 4, n)
        options["freq_weights"] = "freq"
    if rng.random() < 0.15:
        frame["village"] = rng.integers(0, max(n // 6, 12), n)
        options["cluster"] = "village"
        if rng.random() < 0.3:
            frame["year"] = [f"y{one}" for one in rng.integers(0, 12, n)]
            options["cluster"] = ["village", "year"]
            options["folds"] = 2
    if "cluster" not in options and rng.random() < 0.07:
        options["folds"] = np.arange(n) % 3


def _formula(rng: Rng, case: Case, outcome: str, treatment: str, names: list[str]) -> list[str]:
    """Write the formula; the covariates that it reads are returned."""
    frame = case.frame
    marked = _marked(rng, case, treatment)
    join = str(rng.choice([" + ", " + ", " * "]))
    left = quoted(outcome)
    others = [name for name in frame.columns if name not in (outcome, treatment)]
    if rng.random() < 0.5:
        case.formula = f"{left} ~ {marked}{join}."
        return [name for name in others if not _is_argument(case, name)]
    used = [str(name) for name in rng.choice(names, size=int(rng.integers(1, len(names) + 1)), replace=False)]
    parts = [_term(rng, name, frame[name]) for name in used]
    case.formula = f"{left} ~ {marked}{join}({' + '.join(parts)})"
    return used


def _marked(rng: Rng, case: Case, treatment: str) -> str:
    """The treatment, with a spline or a transformation now and then where it is continuous."""
    own = quoted(treatment)
    if not is_continuous(QUESTIONS[case.verb]) or rng.random() < 0.7:
        return f"treat({own})"
    shapes = [f"(treat({own}) + I(treat({own}) ** 2))", f"poly(treat({own}), 2)", f"cr(treat({own}), df=4)"]
    return str(rng.choice(shapes))


def _is_argument(case: Case, name: str) -> bool:
    """Whether a column is named as weights or clusters, so that ``.`` leaves it out."""
    given = [case.options.get(key) for key in ("weights", "freq_weights", "cluster")]
    return any(name == one if isinstance(one, str) else isinstance(one, list) and name in one for one in given)


def _term(rng: Rng, name: str, column: pd.Series) -> str:
    own = quoted(name)
    numeric = pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)
    if not numeric or rng.random() < 0.5:
        return own if numeric or rng.random() < 0.7 else f"C({own})"
    if rng.random() < 0.1 and column.nunique() < 6:
        return f"C({own})"
    terms = [
        f"I({own} ** 2)",
        f"center({own})",
        f"scale({own})",
        f"cr({own}, df=3)",
        f"bs({own}, df=4)",
        f"poly({own}, 2)",
    ]
    return str(rng.choice(terms))


def _question(rng: Rng, case: Case, treatment: str, used: list[str]) -> None:
    """The argument that a verb asks for."""
    frame, options = case.frame, case.options
    numeric = [name for name in used if name in frame and frame[name].dtype == np.float64 and name.isidentifier()]
    policy: Any = (
        f"{numeric[0]} > {float(frame[numeric[0]].median())!r}" if numeric and numeric[0] not in ("np", "log") else 0.5
    )
    if case.verb in ("ape", "ipe"):
        options["policy"] = policy if rng.random() < 0.8 else (lambda data: np.full(len(data), 0.25))
    elif case.verb == "shift":
        spread = float(pd.Series(frame[treatment]).astype(float).std())
        options["delta"] = [0.1 * spread, 0.2 * spread] if rng.random() < 0.3 else 0.2 * spread
    elif case.verb == "mean":
        levels = pd.Series(frame[treatment]).dropna().unique().tolist()
        if len(levels) <= 4:
            options["at"] = levels if rng.random() < 0.5 else levels[0]
        else:
            spread = float(pd.Series(frame[treatment]).astype(float).std())
            options["at"] = f"{quoted(treatment)} + {0.1 * spread!r}"
    else:
        options |= settings(QUESTIONS[case.verb])


def _wrong_argument(rng: Rng, case: Case) -> None:
    """Something that must be refused before anything is fitted."""
    n = len(case.frame)
    wrong: list[dict[str, Any]] = [
        {"folds": 0},
        {"folds": 10**30},
        {"folds": "no such column"},
        {"repeats": -1},
        {"repeats": "two"},
        {"family": "poison"},
        {"target": "everyone"},
        {"trim": -1},
        {"weights": -np.ones(n)},
        {"weights": pd.date_range("2020", periods=n)},
        {"weights": np.ones(n) * 1j},
        {"weights": np.ones(n + 1)},
        {"freq_weights": np.full(n, 0.5)},
        {"cluster": "nowhere"},
        {"cluster": np.zeros(n)},
        {"estimator": "drr"},
        {"na_action": "keep"},
        {"seed": -3},
        {"n_jobs": 0},
        {"bounds": (1, 0)},
        {"fold": 3},
        {"context": 3},
    ]
    chosen = wrong[int(rng.integers(len(wrong)))]
    case.options |= chosen
    case.spoiled.append(f"{next(iter(chosen))} is wrong")
    case.refused = True


def _expected_rows(case: Case, needed: list[str]) -> int:
    """Complete rows with a positive weight; with frequencies, the rows that they stand for."""
    frame, options = case.frame, case.options
    counts = frame[sorted(set(needed))].notna().all(axis=1).to_numpy().astype(float)
    for key in ("weights", "freq_weights"):
        given = options.get(key)
        if given is not None:
            values = np.asarray(frame[given] if isinstance(given, str) else given, dtype=float)
            counts = counts * (values > 0) * (values if key == "freq_weights" else 1.0)
    return int(counts.sum())


def _container(rng: Rng, case: Case) -> Any:
    """The table in pandas, with some index, in polars or in Arrow."""
    frame, kind = case.frame, rng.random()
    intervals = any(
        isinstance(column.dtype, pd.CategoricalDtype) and isinstance(column.dtype.categories, pd.IntervalIndex)
        for _, column in frame.items()
    )
    if kind < 0.6 or intervals:
        index = [
            None,
            rng.permutation(len(frame)),
            np.zeros(len(frame), dtype=int),
            [f"r{i}" for i in range(len(frame))],
        ]
        own = index[int(rng.choice(4, p=[0.7, 0.1, 0.1, 0.1]))]
        case.words.append("pandas" if own is None else "pandas with an index")
        return frame if own is None else frame.set_axis(own, axis=0)
    import pyarrow

    table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    for name in frame.columns:
        if rng.random() < 0.3 and pyarrow.types.is_string(table.schema.field(name).type):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, table.column(name).dictionary_encode())
    if kind < 0.8:
        case.words.append("pyarrow")
        return table
    import polars

    made = polars.from_arrow(table)
    case.words.append("polars")
    return made.lazy() if rng.random() < 0.3 else made
