"""Plots show the numbers of the tables, in the colours of the style, and no text covers another."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text

import riesz
from riesz.plots import PLOTS
from riesz.plots.labelled_rows import wrap

LONG = "household_income_before_taxes_in_thousands"
NET = riesz.MADNet(width=16, head_width=8, stages=(riesz.Stage(1e-2, 6, 6),), device="cpu", repeats=1)
MORE: dict[str, dict[str, Any]] = {
    "groups": {"by": "region"},
    "sensitivity": {"benchmarks": ["x1", "x2", ["x1", "x2"]]},
}


@pytest.fixture(autouse=True)
def without_screen() -> None:
    plt.switch_backend("Agg")


@pytest.fixture(scope="module")
def frame(binary_frame: pd.DataFrame) -> pd.DataFrame:
    n = len(binary_frame)
    names = ["North Rhine-Westphalia and the northern lowlands", *(f"region {k}" for k in range(2, 21))]
    other = {f"{LONG}_{k}": np.random.default_rng(k).normal(size=n) for k in range(3)}
    return binary_frame.assign(region=[names[i % 20] for i in range(n)], **other)


@pytest.fixture(scope="module")
def fit(frame: pd.DataFrame) -> riesz.Results:
    return riesz.ate(f"y ~ treat(a) * (x1 + x2 + g + {' + '.join(f'{LONG}_{k}' for k in range(3))})", frame)


@pytest.fixture(scope="module")
def many(frame: pd.DataFrame) -> riesz.Results:
    return riesz.estimate("y ~ treat(a) * (x1 + x2)", frame, [riesz.ATE(), riesz.ATT(), riesz.Mean([0, 1])])


@pytest.fixture(scope="module")
def stacked(frame: pd.DataFrame) -> riesz.Results:
    stack = riesz.Stack(["linear", "splines", NET])
    return riesz.estimate("y ~ treat(a) + x1 + x2", frame, [riesz.ATE(), riesz.ATT()], learner=stack, folds=2)


@pytest.fixture(scope="module")
def net(frame: pd.DataFrame) -> riesz.Results:
    return riesz.ate("y ~ treat(a) + x1 + x2", frame, learner=NET, folds=2)


def draw(fit: riesz.Results, kind: str, **options: Any) -> Any:
    return fit.plot(kind, **{**MORE.get(kind, {}), **options})


def figure(axes: Any) -> Figure:
    made = np.ravel(axes)[0].figure
    made.draw_without_rendering()
    return made


def labels(ax: Axes) -> list[str]:
    return [label.get_text().replace("\n", " ") for label in ax.get_yticklabels()]


def marks(ax: Axes) -> np.ndarray:
    """x and y of everything drawn as a mark."""
    lines = [line for line in ax.lines if line.get_marker() not in ("", "None", None)]
    return np.concatenate([np.column_stack(line.get_data()) for line in lines])


def segments(ax: Axes) -> np.ndarray:
    """Left end, right end and height of all horizontal lines."""
    found = [s for one in ax.collections if isinstance(one, LineCollection) for s in one.get_segments() if len(s) == 2]
    return np.array([(*sorted(s[:, 0]), s[0, 1]) for s in found])


def texts(made: Figure) -> list[Text]:
    found = [text for text in made.findobj(Text) if text.get_visible() and text.get_text().strip()]
    inside = []
    for ax in made.axes:  # ticks beyond the limits keep their text, but are not drawn
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            low, high = sorted(limits)
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            inside += [tick.label1 for tick in ticks if not low <= tick.get_loc() <= high]
    return [text for text in found if text not in inside]


def test_every_plot_is_tested() -> None:
    assert set(PLOTS) == set(riesz.plots.__all__) - {"PLOTS"}


@pytest.mark.parametrize("style", ["default", "dark_background"])
@pytest.mark.parametrize("kind", [kind for kind in PLOTS if kind != "history"])
@pytest.mark.parametrize("which", ["fit", "many"])
def test_text_is_readable(
    request: pytest.FixtureRequest, frame: pd.DataFrame, which: str, kind: str, style: str
) -> None:
    """Nothing covers or leaves anything, with long names, several parameters and 20 groups; colours are the style's."""
    fit = request.getfixturevalue("stacked" if (which, kind) == ("many", "candidates") else which)
    about = {} if which == "fit" or kind in ("panels", "forest", "estimators", "groups") else {"parameter": "ATT"}
    with plt.style.context(style):
        made = figure(draw(fit, kind, **about))
        ink, page = plt.rcParams["text.color"], plt.rcParams["figure.facecolor"]
    shown = texts(made)
    assert len(shown) > 5
    boxes = [text.get_window_extent() for text in shown]
    width, height = made.canvas.get_width_height()
    for text, box in zip(shown, boxes, strict=True):
        assert box.x0 > -1, text
        assert box.y0 > -1, text
        assert box.x1 < width + 1, text
        assert box.y1 < height + 1, text
        assert text.get_fontsize() >= 5
    for (left, a), (right, b) in combinations(zip(shown, boxes, strict=True), 2):
        common = (min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0))
        assert min(common) <= 1.0, f"{left.get_text()!r} covers {right.get_text()!r}"
    for ax in made.axes:
        written = [*ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label, ax.yaxis.label]
        assert {to_rgba(str(one.get_color())) for one in written} == {to_rgba(ink)}
    assert made.get_facecolor() == to_rgba(page)


def test_forest_shows_the_intervals(fit: riesz.Results, many: riesz.Results, net: riesz.Results) -> None:
    ax = riesz.plots.forest(fit, net, names=["closed form", "network"])
    assert labels(ax) == ["closed form", "network"]
    assert ax.get_xlabel() == "ATE with 95% interval"
    expected = np.vstack([one.conf_int().to_numpy() for one in (fit, net)])
    np.testing.assert_allclose(segments(ax)[:, :2], expected)
    np.testing.assert_allclose(marks(ax)[:, 0], [fit.params["ATE"], net.params["ATE"]])
    assert f"{fit.params['ATE']:.2f}" in ax.texts[0].get_text()
    ax = riesz.plots.forest(many, fit, alpha=0.1)
    assert labels(ax) == many.params.index.tolist()
    np.testing.assert_allclose(segments(ax)[:, :2], np.vstack([many.conf_int(0.1), fit.conf_int(0.1)]))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["(1)", "(2)"]


def test_forest_takes_effects_and_statsmodels(fit: riesz.Results, frame: pd.DataFrame) -> None:
    import statsmodels.formula.api as smf

    assert labels(fit.blp("~ x1").plot()) == ["Intercept", "x1"]
    assert labels(riesz.plots.forest(smf.ols("y ~ a", frame).fit())) == ["Intercept", "a"]


def test_estimators(fit: riesz.Results) -> None:
    ax = draw(fit, "estimators")
    np.testing.assert_allclose(sorted(marks(ax)[:, 0]), sorted(fit.estimates["estimate"]))
    drawn = segments(ax)
    np.testing.assert_allclose(
        drawn[np.isfinite(drawn[:, 0]), :2], fit.estimates.dropna()[["conf_low", "conf_high"]].to_numpy()
    )
    hollow = [line for line in ax.lines if line.get_fillstyle() == "none"]
    np.testing.assert_allclose(hollow[0].get_xdata(), fit.estimates.loc[("ATE", ["direct", "ipw"]), "estimate"])


def test_candidates(frame: pd.DataFrame, fit: riesz.Results, many: riesz.Results, tmp_path: Path) -> None:
    """One row per learner with its weights, the stack last; the numbers are those of the table, for any parameter."""
    stack = riesz.Stack(["linear", "splines"])
    mixed = riesz.estimate("y ~ treat(a) + x1 + x2", frame, [riesz.ATE(), riesz.ATT()], learner=stack, folds=2)
    mixed.save(tmp_path / "fit.riesz")
    for drawn in (mixed, riesz.load(tmp_path / "fit.riesz")):
        for name in ("ATE", "ATT"):
            ax, table = drawn.plot("candidates", name), mixed.candidates.loc[name]
            np.testing.assert_allclose(marks(ax)[:, 0], table["estimate"])
            np.testing.assert_allclose(segments(ax)[:, :2], table[["conf_low", "conf_high"]])
            assert ax.get_xlabel() == f"{name} with 95% interval"
            shares = [f"mu {mu:.0%}, rr {rr:.0%}" for mu, rr in table[["weight_mu", "weight_rr"]].to_numpy()[:2]]
            assert labels(ax) == [f"Linear (ridge, rr constrained) {shares[0]}", f"Splines {shares[1]}", "stack"]
            (band,) = ax.patches
            assert band.get_y() < marks(ax)[2, 1] < band.get_y() + band.get_height()
            assert not band.get_y() < marks(ax)[1, 1]
    alone = draw(fit, "candidates")
    assert labels(alone) == ["Linear (ridge, rr constrained)"]
    np.testing.assert_allclose(segments(alone)[:, :2], fit.conf_int())
    assert not alone.patches
    with pytest.raises(riesz.RieszError, match="expected one of 'ATE', 'ATT'"):
        many.plot("candidates")


def test_a_learner_that_cannot_estimate_alone_has_no_row(frame: pd.DataFrame) -> None:
    stack = riesz.Stack(["linear", "kernel_embedding"])
    mixed = riesz.ate("y ~ treat(a) + x1 + x2", frame, learner=stack, folds=2)
    ax = mixed.plot("candidates")
    assert len(labels(ax)) == 2
    np.testing.assert_allclose(marks(ax)[:, 0], mixed.candidates["estimate"].dropna())


def test_a_far_reference_is_left_out(frame: pd.DataFrame) -> None:
    shifted = riesz.mean("y ~ treat(a) * x1", frame.assign(y=frame["y"] + 100), at=1)
    ax = shifted.plot("forest")
    assert ax.get_xlim()[0] > 90
    assert riesz.plots.forest(shifted, null=101.0).get_xlim()[0] > 90


def test_groups(fit: riesz.Results) -> None:
    ax = draw(fit, "groups")
    table, wide = fit.by("region").tidy(), fit.by("region").tidy(joint=True)
    assert labels(ax) == table["group"].tolist()
    np.testing.assert_allclose(marks(ax)[:, 0], table["estimate"])
    np.testing.assert_allclose(segments(ax)[:20, :2], wide[["conf_low", "conf_high"]])
    np.testing.assert_allclose(segments(ax)[20:, :2], table[["conf_low", "conf_high"]])
    assert len(segments(draw(fit, "groups", joint=False))) == 20


def test_balance(fit: riesz.Results) -> None:
    table = fit.balance().loc["ATE"]
    covariates = table[table["kind"] == "covariate"].sort_values("unadjusted", key=np.abs, ascending=False)
    ax = draw(fit, "balance")
    assert [name.replace(" ", "") for name in labels(ax)] == covariates.index.tolist()
    np.testing.assert_allclose(marks(ax)[:7, 0], covariates["unadjusted"].abs())
    np.testing.assert_allclose(marks(ax)[7:, 0], covariates["standardized"].abs())
    assert len(labels(draw(fit, "balance", interactions=True))) == 14
    few = draw(fit, "balance", most=2)
    assert len(labels(few)) == 2
    assert few.get_ylabel() == "Worst 2 of 7"


def test_influence_and_quantiles(fit: riesz.Results) -> None:
    ax = draw(fit, "influence", k=6)
    table = fit.influential(6)
    assert labels(ax) == table.index.map(str).tolist()
    np.testing.assert_allclose(marks(ax)[:, 0], table["change_in_se"])
    assert ax.get_ylabel() == "Row"
    np.testing.assert_allclose(marks(draw(fit, "qq")), fit.influence_quantiles()[["theoretical", "sample"]])


def test_clusters_are_labelled_as_clusters(fit: riesz.Results) -> None:
    with pytest.warns(riesz.RieszWarning, match="split"):
        clustered = fit.with_cov("region")
    assert draw(clustered, "influence", k=3).get_ylabel() == "Cluster"


def test_representer_and_overlap(fit: riesz.Results, continuous_frame: pd.DataFrame) -> None:
    ax = draw(fit, "representer", bins=10)
    assert len(ax.patches) == 20
    assert sum(bar.get_height() for bar in ax.patches) == fit.nobs
    ax = draw(fit, "overlap", bins=10)
    heights = np.array([bar.get_height() for bar in ax.patches])
    np.testing.assert_allclose(heights[:12].sum(), 1.0)
    np.testing.assert_allclose(heights[12:].sum(), -1.0)
    rows = fit.overlap().rows
    treated = rows.loc[rows["arm"] == "1", "propensity"]
    np.testing.assert_allclose(heights[3], ((treated >= 0.3) & (treated < 0.4)).mean())
    np.testing.assert_allclose(heights[10:12], [(treated < 0).mean(), (treated > 1).mean()])
    slope = riesz.ade("y ~ treat(d) * x1", continuous_frame)
    assert len(slope.plot("representer", bins=10).patches) == 10
    assert slope.plot().flat[1].get_title(loc="left") == "Riesz representer"
    with pytest.raises(riesz.RieszError, match="two arms"):
        slope.plot("overlap")


def test_sensitivity_contour_runs_through_the_robustness_value(fit: riesz.Results) -> None:
    analysis = fit.sensitivity()
    rv = analysis.table.loc["ATE", "rv"]
    ax = analysis.plot(benchmarks=fit.sensitivity_benchmark("x1"))
    null = ax.collections[1].get_paths()[0].vertices
    np.testing.assert_allclose(np.sqrt(null[:, 1] * null[:, 0] / (1 - null[:, 0])), rv / np.sqrt(1 - rv), rtol=2e-3)
    found = fit.sensitivity_benchmark("x1").loc[("x1", "ATE")]
    np.testing.assert_allclose(marks(ax), [[0.03, 0.03], [found["cf_d"], found["cf_y"]]])
    assert "confidence" in analysis.plot(confidence=True).get_title(loc="left")
    below = fit.sensitivity(null=9.0).plot()
    assert below.get_title(loc="left") == "Upper bound on ATE"


def test_a_strong_benchmark_stretches_its_own_axis_alone(fit: riesz.Results) -> None:
    """A column that explains all of the outcome and little of the treatment must not flatten the picture."""
    index = pd.MultiIndex.from_tuples([("x1", "ATE")], names=["columns", "parameter"])
    found = pd.DataFrame({"cf_y": [1.0], "cf_d": [0.02]}, index=index)
    analysis = fit.sensitivity()
    plain, ax = analysis.plot(), analysis.plot(benchmarks=found)
    assert ax.get_xlim() == plain.get_xlim()
    assert ax.get_ylim()[1] > 1.0
    grid = analysis.contour(upto=(0.1, 0.4), points=5)
    assert (grid["cf_d"].max(), grid["cf_y"].max()) == (0.1, 0.4)


def test_history(net: riesz.Results, fit: riesz.Results) -> None:
    ax = draw(net, "history")
    first = net.history[(net.history["member"] == 0) & (net.history["network"] == 0)]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), first["loss"])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["training loss", "validation loss"]
    assert draw(net, "history", columns=["rr_anchor"]).get_ylabel() == "Value"
    with pytest.raises(riesz.RieszError, match="no training history"):
        draw(fit, "history")
    with pytest.raises(riesz.RieszError, match="history has no column `los`"):
        draw(net, "history", columns=["los"])


@pytest.mark.parametrize("kind", [kind for kind in PLOTS if kind not in ("panels", "history")])
def test_given_axes_are_used(fit: riesz.Results, kind: str) -> None:
    _, (left, right) = plt.subplots(1, 2)
    assert draw(fit, kind, ax=right) is right
    assert len(plt.get_fignums()) == 1
    assert not left.has_data()


def test_four_panels(fit: riesz.Results, many: riesz.Results) -> None:
    axes = fit.plot()
    assert axes.shape == (2, 2)
    assert [ax.get_title(loc="left") for ax in axes.flat] == ["Estimators", "Overlap", "Balance", "Influence"]
    assert many.plot(parameter="ATT").flat[2].get_title(loc="left") == "Balance: ATT"


@pytest.mark.parametrize("kind", ["panels", "forest", "groups", "influence"])
def test_a_loaded_fit_looks_the_same(fit: riesz.Results, tmp_path: Path, kind: str) -> None:
    fit.save(tmp_path / "fit.riesz")
    pictures = []
    for one in (fit, riesz.load(tmp_path / "fit.riesz")):
        made = figure(draw(one, kind))
        made.canvas.draw()
        pictures.append(np.asarray(made.canvas.buffer_rgba()))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(*pictures)


def test_dark_pages_have_lighter_blue(fit: riesz.Results) -> None:
    colours = {}
    for style in ("default", "dark_background"):
        with plt.style.context(style):
            colours[style] = draw(fit, "qq").lines[1].get_color()
    assert colours == {"default": "#0072B2", "dark_background": "#56B4E9"}


def test_errors(fit: riesz.Results, many: riesz.Results, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(riesz.RieszError, match="Did you mean `balance`"):
        fit.plot("balanced")
    with pytest.raises(riesz.RieszError, match="expected one of 'ATE', 'ATT'"):
        many.plot("balance")
    both = riesz.estimate("y ~ treat(a) * x1", frame, [riesz.ATE(), riesz.CustomMoment(lambda mu, data: mu(data))])
    with pytest.raises(riesz.RieszError, match="No propensity can be recovered"):
        both.plot("overlap", both.params.index[1])
    with pytest.raises(riesz.RieszError, match="got no fits"):
        riesz.plots.forest()
    with pytest.raises(riesz.RieszError, match="one name per fit, 1 in all"):
        riesz.plots.forest(fit, names=["a", "b"])
    with pytest.raises(riesz.RieszError, match="most=0"):
        fit.plot("balance", most=0)
    alone = riesz.ate("y ~ treat(a) * x1", frame, learner="kernel_embedding", folds=1)
    assert alone.plot("estimators").get_xlabel() == "ATE (no standard error)"
    assert alone.plot("forest").get_xlabel() == "Estimate (no standard error)"
    for kind in ("panels", "balance", "overlap", "representer", "qq", "influence", "sensitivity"):
        with pytest.raises(riesz.RieszError, match="no Riesz representer"):
            alone.plot(kind)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(riesz.RieszError, match=r"pip install 'riesz\[plots\]'"):
        fit.plot()


def test_names_are_wrapped_and_never_lost() -> None:
    assert wrap("short") == "short"
    assert wrap("one_two_three", 8) == "one_two_\nthree"
    assert wrap("a" * 20, 8) == "a" * 8 + "\n" + "a" * 8 + "\n" + "a" * 4
    long = wrap("the quick brown fox " * 20)
    assert long.count("\n") <= 4
    assert "…" in long
    assert max(map(len, long.split("\n"))) <= 26
