"""Formulas from files, and policies, can only compute, and only for a limited time, whoever wrote them.

Each attack would leave a file called ``trapped`` behind, or would not end. Formulas that users type are Python, as in R and patsy;
those of a loaded fit are checked on what formulaic will evaluate.
"""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from forging import forge

import riesz
from riesz.syntax.safe_formula import parse_safe_formula, unsafe_part
from riesz.syntax.terms import MOST_TERMS, count_terms

TRAP = "open('trapped', 'w')"
COLUMNS = ["y", "a", "x", "g", "x 1"]
PATIENCE = 20.0  # seconds; an attack that succeeds takes longer


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, 120))
    a = rng.integers(0, 2, 120).astype(float)
    return pd.DataFrame({"y": x + a + rng.normal(size=120), "a": a, "x": x, "g": rng.choice(["u", "v"], 120), "x 1": z})


@pytest.fixture(scope="module")
def original(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("saved") / "fit.riesz"
    riesz.estimate("y ~ treat(a) * (x + g + `x 1`)", frame, riesz.APE("x > 0"), folds=2).save(file)
    return file.read_bytes()


@pytest.fixture
def file(original: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fit.riesz").write_bytes(original)
    return tmp_path / "fit.riesz"


def with_formula(file: Path, formula: Any, columns: list[str] | None = None) -> riesz.Results:
    def change(content: dict[str, Any], arrays: Any) -> None:
        content["recipe"]["formula"] = formula
        if columns is not None:  # an attacker also chooses the names of columns, in the recipe and in the data
            content["recipe"]["columns"] += columns
            for part in ("table", "data"):
                spec = content[part]["columns"]
                content[part]["columns"] = [*spec, *([name, spec[0][1]] for name in columns)]

    return riesz.load(forge(file, change))


ATTACKS = [
    # the one of the audit: back-ticks in strings hide what stands between them
    f"y ~ treat(a) + C(x, '`') + I({TRAP}) + C(x, '`')",
    f"y ~ treat(a) + C(x, '`') + {{{TRAP}}} + C(x, '`')",
    f'y ~ treat(a) + C(x, "`") + I({TRAP}) + C(x, "`")',
    f"y ~ treat(a) + np.where(g == '`', {TRAP}, 1) + np.where(g == '`', 1, 0)",
    f"log({TRAP}) ~ treat(a) + x",
    f"I(y + {TRAP}) ~ treat(a) + x",
    f"{{y}} + {{{TRAP}}} ~ treat(a) + x",
    f"log(y, '}} + {{{TRAP}}}') ~ treat(a) + x",
    f"y ~ treat(a + {TRAP}) + x",
    f"y ~ treat(a, reference={TRAP}) + x",
    f"y ~ treat({TRAP} or a) + x",
    # formulaic puts aliases back by replacing text, also inside strings, and writes source of calls into code
    f"y ~ treat(a) + C(g, levels=['_formulaic_x_1']) + I(`x 1` + {TRAP})",
    'y ~ treat(a) + scale(x, \'") or open("trapped", "w") #\')',
    "y ~ treat(a) + scale(`x 1`, scale='_formulaic_x_1')",
    'y ~ treat(a) + scale(np.where(g == "it\'s", x, 1))',
    'y ~ treat(a) + C(g, levels=["\\x22"])',
    "y ~ treat(a) + I(treat(a)) + C(g, levels=['__treatment__'])",
    "y ~ treat(a) + C(g, levels=['__quoted_0__']) + I(`x 1`)",
    # attributes, modules, builtins, machinery
    "y ~ treat(a) + {x.__class__}",
    "y ~ treat(a) + x.tofile('trapped')",
    "y ~ treat(a) + {x.to_csv('trapped')}",
    "y ~ treat(a) + np.f2py.os.system('touch trapped')",
    "y ~ treat(a) + np.load('trapped', allow_pickle=True)",
    "y ~ treat(a) + np.save('trapped', x)",
    "y ~ treat(a) + np.log(x, out=x)",
    "y ~ treat(a) + np.log(x, x)",
    "y ~ treat(a) + eval('1')",
    "y ~ treat(a) + __import__('os').system('touch trapped')",
    "y ~ treat(a) + {__builtins__}",
    "y ~ treat(a) + {__FORMULAIC_CONTEXT__}",
    "y ~ treat(a) + scale(x, _state=__FORMULAIC_STATE__)",
    "y ~ treat(a) + Q('x')",
    "y ~ treat(a) + hashed(x, levels=10)",
    "y ~ treat(a) + C(x, contr.custom([[1]]))",
    "y ~ treat(a) + {np}",
    "y ~ treat(a) + {contr.treatment}",
    # other kinds of node
    f"y ~ treat(a) + {{[{TRAP} for _ in (1,)]}}",
    f"y ~ treat(a) + {{(lambda: {TRAP})()}}",
    f"y ~ treat(a) + {{x if {TRAP} else x}}",
    f"y ~ treat(a) + {{f'{TRAP}'}}",
    "y ~ treat(a) + {(z := x)}",
    "y ~ treat(a) + {x[0]}",
    "y ~ treat(a) + {x in [1]}",
    "y ~ treat(a) + {x @ x}",
    "y ~ treat(a) + {*x,}",
    "y ~ treat(a) + {log(*[x])}",
    "y ~ treat(a) + {log(**{'x': x})}",
    "y ~ treat(a) + {b'x'}",
    "y ~ treat(a) + {1j * x}",
    "y ~ treat(a) + {...}",
    # what would not end, or would fill the memory
    "y ~ treat(a) + I(x + 9**9**9)",
    "y ~ treat(a) + I(x + 9**9**9**9)",
    "y ~ treat(a) + I(x * (10**18 * 10**18))",
    "y ~ treat(a) + I(x + abs(9)**(9**9))",
    "y ~ treat(a) + I(x + round(5, -10**9))",
    "y ~ treat(a) + I(x + round(x, 10**9))",
    "y ~ treat(a) + I(x + (1 << 10**9))",
    "y ~ treat(a) + C(g, levels=['a' * 10**9])",
    "y ~ treat(a) + C(g, levels=[0] * 10**9)",
    "y ~ treat(a) + np.isin(x, [0] * 10**9)",
    "y ~ treat(a) + np.where(x > 0, g, g) * 10**9",
    "y ~ treat(a) + I(np.where(x > 0, 'a', 'b') * 10**9)",
    "y ~ treat(a) + bs(x, df=10**9)",
    "y ~ treat(a) + bs(x, df=100000000)",
    "y ~ treat(a) + bs(x, degree=99999999)",
    "y ~ treat(a) + bs(x, df=abs(-100000000))",
    "y ~ treat(a) + poly(x, 99999999)",
    "y ~ treat(a) + I(poly(x, 1) + x)",
    "y ~ treat(a) + I(x + " + "9" * 5000 + ")",
    "y ~ treat(a) + I(" + "-" * 100_000 + "x)",
    "y ~ treat(a) + I(" + "(" * 150 + "x" + ")" * 150 + "+ y" * 3000 + ")",
    "y ~ treat(a) + x" * 20_000,
    f"y ~ treat(a) * (x + g)**{'9' * 9}",
    "y ~ treat(a) + (x + g + `x 1`)**(99 + 2)",
    "y ~ treat(a) + " + "*".join(["(x + g + `x 1`)"] * 30),
    "y ~ treat(a) + " + "xyz" * 30_000,
    # no formula at all
    None,
    5,
    ["y ~ treat(a)"],
    "",
    "y",
    "y ~ treat(a) ~ x",
    "y ~ (treat(a) ~ x)",
    "y ~ treat(a) + `x",
]


@pytest.mark.parametrize("formula", ATTACKS, ids=lambda text: str(text)[:60])
def test_a_formula_of_a_file_runs_nothing(file: Path, frame: pd.DataFrame, formula: Any) -> None:
    begun = time.monotonic()
    with pytest.raises(
        riesz.RieszError,
        match=r"known to be safe|cannot be read|was altered|not known|~ sign|terms|not a column of the data|"
        r"columns cannot be computed|does not list",
    ) as caught:
        with_formula(file, formula).predict(frame)
    assert not Path("trapped").exists()
    assert time.monotonic() - begun < PATIENCE
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    ("formula", "columns"),
    [
        (f"y ~ treat(a) + {name}", [name])
        for name in ("np", "open", "__import__", "__builtins__", "C", "I", "eval", "contr", "__FORMULAIC_STATE__")
    ]
    + [
        ("y ~ treat(a) + {open}", ["open"]),
        ("y ~ treat(a) + open('trapped', 'w')", ["open", "'trapped'"]),
        ("y ~ treat(a) + {np.log(x)}", ["np"]),
        ("y ~ treat(a) + C(x)", ["C"]),
        ("y ~ treat(a) + {__import__}", ["__import__"]),
        ("y ~ treat(a) + `open('trapped', 'w')`", ["open('trapped', 'w')"]),
        ("y ~ treat(a) + {`open('trapped', 'w')`}", ["open('trapped', 'w')"]),
        ("y ~ treat(a) + {`x') or open('trapped', 'w') or ('`}", ["x') or open('trapped', 'w') or ('"]),
        ("y ~ treat(`a} + {open('trapped','w')}`) + x", ["a} + {open('trapped','w')}"]),
        (
            "y ~ treat(`a' + open('trapped','w') + '`) + C(g, levels=['__treatment__'])",
            ["a' + open('trapped','w') + '"],
        ),
        ("y ~ treat(a) + .", ["open('trapped', 'w')", "{open('trapped', 'w')}", "`"]),
    ],
    ids=lambda value: str(value)[:50],
)
def test_columns_with_names_that_mean_something_in_python(
    file: Path, frame: pd.DataFrame, formula: str, columns: list[str]
) -> None:
    """They are columns and nothing else, whatever they are called."""
    new = frame.assign(**dict.fromkeys(columns, 1.0))
    with pytest.raises(riesz.RieszError):
        with_formula(file, formula, columns).predict(new)
    assert not Path("trapped").exists()


def test_a_name_that_is_not_a_column_is_not_looked_up_elsewhere(file: Path, frame: pd.DataFrame) -> None:
    def change(content: dict[str, Any], arrays: Any) -> None:
        content["recipe"]["formula"] = "y ~ treat(a) + {open}"
        content["recipe"]["columns"].append("open")  # but not in the data

    with pytest.raises(riesz.FormulaError, match=r"'open'.*not known to be safe"):
        riesz.load(forge(file, change)).predict(frame)


def test_the_columns_of_a_formula_are_counted_before_they_are_computed(file: Path, frame: pd.DataFrame) -> None:
    """C(x) has as many levels as rows: with 20,000 rows their product would take 3 GB."""
    rng = np.random.default_rng(1)
    n = 20_000
    large = pd.DataFrame({"y": rng.normal(size=n), "a": rng.integers(0, 2, n), "x": rng.normal(size=n)})
    riesz.ate("y ~ treat(a) + x", large, folds=2).save(file)
    for formula in ("y ~ treat(a) + C(x)", "y ~ treat(a) + C(x + 1)", "y ~ treat(a):C(np.exp(x))"):
        with pytest.raises(
            riesz.FormulaError, match=r"would make [\d,]+ columns of 20,000 rows, far more than the fit has \(3\)"
        ):
            with_formula(file, formula).predict(large.head())


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ treat(a) * (bs(x, df=4) + C(g, contr.treatment(base='u'))) + I(x**2) + np.log(`x 1`**2)",
        "log(np.exp(y)) ~ treat(a, reference=0) + {x + 1}",
        "y ~ treat(a) + scale(x) + center(`x 1`) + standardize(x, rescale=False) + poly(x, 3)",
        "y ~ treat(a) + cr(x, df=3) + cc(`x 1`, knots=[0.1, 0.5, 1.0])",
        "y ~ treat(a) + C(g, Treatment(reference='v')) + C(x > 0) + C(round(x))",
        "y ~ treat(a) + C(g, contr.sum) + np.where(x > 0, x, 0) + np.isin(x, [1, 2, 3])",
        "y ~ treat(a) + C(np.where(x > 0, 'high', 'low')) + I((g == 'u') & (x < 2))",
        "y ~ treat(a) + bs(x, df=5, degree=2, include_intercept=True, extrapolation='clip')",
        "y ~ treat(a) + I(x * 10**6 / 3) + I(x / np.log(2)) + abs(x) + I(-x) + I(x - np.pi)",
        "y ~ treat(C(g)) + x:`x 1` + 2:x",
        "y ~ treat(a > 0) + x\n + g",
        "y ~ treat(a) + x + C(g, levels=['v', \"it's\", 'u'])",
    ],
)
def test_safe_formulas_predict_after_loading(file: Path, frame: pd.DataFrame, formula: str) -> None:
    """The check accepts the formulas that users write."""
    assert unsafe_part(formula, COLUMNS) is None
    fit = riesz.ate(formula, frame, folds=2, learner=riesz.Linear(0.1, 0.1))
    fit.save(file)
    pd.testing.assert_frame_equal(riesz.load(file).predict(frame.head(9)), fit.predict(frame.head(9)))


def test_terms_are_counted_before_they_are_expanded() -> None:
    assert count_terms("(a + b + c)**2", 0) == 3**2 + 1
    assert count_terms("a * b * c - a", 0) == 8
    assert count_terms("(" * 50 + "a" + ")" * 50, 0) == 2
    assert count_terms("(. + a)**9", 50) > MOST_TERMS
    data = pd.DataFrame({"y": [1.0, 2.0], "a": [0, 1], **{f"x{k}": [0.0, 1.0] for k in range(30)}})
    with pytest.raises(riesz.FormulaError, match="more than 200,000 terms"):
        riesz.ate("y ~ treat(a) + .**5", data)


def test_reading_a_formula_evaluates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """formulaic evaluates calls left of a second ~ while it reads."""
    monkeypatch.chdir(tmp_path)
    data = pd.DataFrame({"y": [1.0], "a": [1.0], "x": [0.0]})
    for formula in (f"y ~ treat(a) + (scale({TRAP}) ~ x)", f"y ~ treat(a) +~ scale({TRAP})"):
        with pytest.raises(riesz.FormulaError):
            parse_safe_formula(formula, list(data), [], data, 3)
    assert not Path("trapped").exists()


# policies


@pytest.mark.parametrize(
    "policy",
    [
        "__builtins__.__import__('pathlib').Path('trapped').touch() or x > 0",
        "np.f2py.os.system('touch trapped')",
        "np.f2py.os",
        "np.save('trapped', x)",
        "np.lib.npyio.save('trapped', x)",
        "np.fromfile('trapped')",
        "np.exp(x, out=x)",
        "np.exp(x, x)",
        "np.vectorize(open)('trapped')",
        "np.frompyfunc(open, 2, 1)('trapped', 'w')",
        "np.add.reduce(x)",
        "np.add.at(x, 0, 1)",
        "x.tofile('trapped')",
        "x.__class__.__mro__",
        "x.dump('trapped')",
        "x.mean()",
        "().__class__.__base__.__subclasses__()",
        "[c for c in ().__class__.__mro__]",
        "(lambda: 1)()",
        "f'{x}'",
        "x[0]",
        "np",
        "where",
        "open('trapped', 'w')",
        "__import__('os')",
        "eval('1')",
        "pathlib",
        "Path('trapped').touch()",
        "os.system('touch trapped')",
        "popen('touch trapped')",
        "system('touch trapped')",
        "(y := x)",
        "x if x else x",
        "{'a': 1}",
        "`open('trapped', 'w')`",
        "x > 0 if '`' else `",
        "g * 10**9",
        "where(x > 0, g, g) * 10**9",
        "'a' * 10**9",
        "[0] * 10**9",
        "x + [0, 1]",
        "1 << 10**9",
        "x << 2",
        "round(5, -10**9)",
        "round(x, 10**18)",
        "9" * 5000,
        "-" * 50_000 + "x",
        "x" + " + x" * 4_000,
        "x" * 30_000,
        "*x",
        "where(*[x, x, x])",
        "where(**{})",
        "where(x > 0, 1)",
        "isin(x)",
        "1j * x",
        "b'x'",
        "None",
        "...",
        "await x",
        "x @ x",
        "~(x > 0)",
        "~flag",
        "~flag & (x > 0)",
        "~ isin(x, [1])",
        "g == 1",
        "x == 'u'",
        "x in [1, 2]",
        "0 < x < 1",
        "not x",
    ],
    ids=lambda text: text[:50],
)
def test_a_policy_runs_nothing(
    frame: pd.DataFrame, policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    """In a call whose scope holds dangerous objects, and in a file."""
    monkeypatch.chdir(tmp_path)
    import pathlib

    scope = {"pathlib": pathlib, "Path": Path, "os": os, "popen": os.popen, "system": os.system, "open": open}
    data = frame.assign(flag=(frame["x"] > 0).astype(bool))
    begun = time.monotonic()
    with pytest.raises(riesz.EstimandError, match="policy"):
        riesz.ape("y ~ treat(a) + x", data, policy=policy, context=scope)

    def change(content: dict[str, Any], arrays: Any) -> None:
        content["recipe"]["estimands"]["tuple"][0]["fields"]["policy"] = policy

    with pytest.raises(riesz.RieszError):
        riesz.load(forge(file, change)).predict(data)
    assert not Path("trapped").exists()
    assert time.monotonic() - begun < PATIENCE


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("x > 0", lambda d: d["x"] > 0),
        ("~ x > cut", lambda d: d["x"] > 0.3),
        ("(x > 0) & ~(a == 1) | (g == 'u')", lambda d: ((d["x"] > 0) & (d["a"] != 1)) | (d["g"] == "u")),
        ("flag & (x > 0)", lambda d: d["flag"] & (d["x"] > 0)),
        ('where(g == "u", 0.9, np.minimum(0.2, 1))', lambda d: np.where(d["g"] == "u", 0.9, 0.2)),
        ("isin(g, ['u', 'w']) * 1.0", lambda d: d["g"] == "u"),
        ("isin(g, names)", lambda d: d["g"] == "u"),
        ("clip(x, 0, 1)", lambda d: d["x"].clip(0, 1)),
        ("round(abs(tanh(x)), 2)", lambda d: np.tanh(d["x"]).abs().round(2)),
        ("half(x > 0)", lambda d: (d["x"] > 0) / 2),
        ("`x 1` > 0", lambda d: d["x 1"] > 0),
        ("(g == '`u`') | (`x 1` > 0)", lambda d: d["x 1"] > 0),
        ("(x > 0) * (1 - 2**-3) + np.pi * 0", lambda d: (d["x"] > 0) * 0.875),
        ("0.5 + 0 * abs(x) ** 9 ** 0.5", lambda d: np.full(len(d), 0.5)),
        ("(band == 2) * 0.5", lambda d: (d["band"].astype(float) == 2) * 0.5),
        ("day > '2020-02-01'", lambda d: d["day"] > pd.Timestamp("2020-02-01")),
        ("row", lambda d: np.linspace(0, 1, 120)),
        ("1 - (5 // 2) / 4 % 2", lambda d: np.full(len(d), 0.5)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_valid_policies(frame: pd.DataFrame, policy: str, expected: Any) -> None:
    data = frame.assign(
        flag=frame["x"] > 0.5,
        band=pd.Categorical(np.arange(120) % 3 + 1),
        day=pd.date_range("2020-01-01", periods=120),
    )
    scope = {
        "cut": 0.3,
        "tanh": np.tanh,
        "half": lambda values: values / 2,
        "names": ["u", "w"],
        "row": np.linspace(0, 1, 120).tolist(),
    }
    asked = riesz.ape("y ~ treat(a) + x", data, policy=policy, context=scope, folds=2)
    given = riesz.ape("y ~ treat(a) + x", data, policy=np.asarray(expected(data), dtype=float), folds=2)
    np.testing.assert_allclose(asked.params, given.params, rtol=1e-12)


@pytest.mark.parametrize(
    "policy", ["x ** 10**18 > 0", "9.0 ** 9 ** 9 ** 9 > x", "(9**9**9**9 > x) * 0.5", "2**3**2 > x"]
)
def test_powers_take_a_limited_time(frame: pd.DataFrame, policy: str) -> None:
    begun = time.monotonic()
    assert riesz.ape("y ~ treat(a) + x", frame, policy=policy, folds=2).nobs == 120
    assert time.monotonic() - begun < PATIENCE


@pytest.mark.parametrize(
    ("policy", "advice"),
    [
        ("x > x.mean()", "Compute it beforehand and use its name, or pass a function of the frame"),
        ("x > np.mean(x)", "np.mean is not computed row by row"),
        ("x > 0 and g == 'u'", "Write & and | for `and` and `or`"),
        ("1 if a else 0", r"Write where\(condition, value, other\)"),
        ("g in ['u']", r"Write isin\(column, \[value, other\]\)"),
        ("~(x > 0)", r"for its opposite write \(\(x > 0\)\) == False"),
        ("open('x')", "`open` is a builtin_function_or_method in the caller's scope; expected a function"),
        ("half(3)", "`half` needs a column as an argument"),
        ("text * 2", "Arithmetic needs numbers"),
        ("table + 1", "`table` is a dict in the caller's scope; expected a number or an array"),
    ],
)
def test_refusals_say_what_to_write_instead(frame: pd.DataFrame, policy: str, advice: str) -> None:
    scope = {"open": open, "half": lambda v: v / 2, "text": "a", "table": {}}
    with pytest.raises(riesz.EstimandError, match=advice):
        riesz.ape("y ~ treat(a) + x", frame, policy=policy, context=scope)


def test_a_policy_of_a_file_has_no_caller(file: Path, frame: pd.DataFrame) -> None:
    """It cannot use functions and variables around predict()."""
    x_cut = 0.3  # noqa: F841

    def change(content: dict[str, Any], arrays: Any) -> None:
        content["recipe"]["estimands"]["tuple"][0]["fields"]["policy"] = "x > x_cut"

    with pytest.raises(riesz.EstimandError, match="uses `x_cut`, which is not a column"):
        riesz.load(forge(file, change)).predict(frame)


def test_a_pickled_fit_is_checked_like_a_file(frame: pd.DataFrame) -> None:
    def half(values: pd.Series) -> pd.Series:
        return values / 2

    fit = pickle.loads(pickle.dumps(riesz.ate("y ~ treat(a) + half(x)", frame, folds=2)))
    with pytest.raises(riesz.FormulaError, match="not known to be safe"):
        fit.predict(frame)
