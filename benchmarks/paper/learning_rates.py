"""The paper's figure of robustness: E_n[A rr] - 1 and the error of IPW over epochs, at two learning rates.

    python benchmarks/paper/learning_rates.py --data DATA --out learning_rates.png

Twenty IHDP data sets, each with a different seed (treatments and covariates are the same in all of them), the paper's networks,
one stage without early stopping. rr is evaluated on the fifth of the rows that is held out for validation; the outcome is centred
and scaled by its standard deviation. MADNet's rr is rescaled on those rows, as in its estimators; RieszNet's is not. A third line,
which the paper does not have, is that of a network trained against an adversary (:class:`riesz.AdversarialNet`). Writes
benchmarks/paper/results/learning_rates.csv (mean and standard error over data sets by epoch) and learning_rates.json (the largest
|mean| after epoch 50), and draws the figure. A finished setting is not run again. The paper does not state its two rates; here they
are its rate for the first stage on IHDP, and ten times that, which is its rate on BHP.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

import riesz
from riesz.crossfit.folds import draw_labels

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from provenance import record  # noqa: E402
from semisynthetic import IHDP  # noqa: E402

EPOCHS = 100
SETTLED = 50
RATES = (1e-4, 1e-3)
LEARNERS = {"MADNet": riesz.MADNet, "RieszNet": riesz.RieszNet, "AdversarialNet": riesz.AdversarialNet}
OUT = HERE / "results" / "learning_rates.csv"


def kept(fit: riesz.Results, number: int) -> np.ndarray:
    """The validation rows of a fit with one network."""
    seed = np.random.SeedSequence([number, 1]).spawn(1)[0].generate_state(1)[0]
    state = int(np.random.SeedSequence(int(seed)).generate_state(3)[0])
    strata = fit.model.blueprint.design.strata
    return draw_labels(int(fit.nobs), 5, strata, None, np.random.default_rng(state)) == 0


def course(source: IHDP, numbers: range, name: str, rate: float) -> pd.DataFrame:
    """Mean and standard error over data sets of both quantities, by epoch."""
    learner = LEARNERS[name].paper(stages=(riesz.Stage(rate, EPOCHS, EPOCHS),))
    courses = []
    for number in tqdm(numbers, desc=f"{name}, {rate:g}", leave=False):
        table = source.draw(number)[0]
        fit = riesz.ate(source.formula, table, learner=learner, folds=1, seed=number, progress=False)
        rows, history = kept(fit, number), fit.history.set_index("epoch")
        rr, a = fit.riesz_representer.to_numpy().ravel()[rows], table["a"].to_numpy()[rows]
        if name != "MADNet":  # an rr without rescaling, so the last epoch can be checked against the fit
            assert np.isclose(np.mean(rr * a), history["rr_anchor"].iloc[-1], atol=1e-3), "the validation rows differ"
        truth = source.effects(number)[rows].mean() / table["y"].std(ddof=0)
        courses.append(
            pd.DataFrame({"rr_anchor": history["rr_anchor"] - 1, "ipw": history["ipw"] - truth}).assign(dataset=number)
        )
    by_epoch = pd.concat(courses).groupby("epoch")[["rr_anchor", "ipw"]]
    course = by_epoch.mean().join(by_epoch.sem(), rsuffix="_std_error").reset_index()
    return course.assign(learner=name, rate=rate)


def draw(courses: pd.DataFrame, path: str) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(8, 5), sharex=True, sharey="row", layout="constrained")
    for column, rate in enumerate(RATES):
        for row, (quantity, label) in enumerate(
            (("rr_anchor", r"$E_n[A \hat\alpha] - 1$"), ("ipw", r"$\hat\Psi^{IPW} - h_n(\mu)$"))
        ):
            ax = axes[row, column]
            ax.axhline(0.0, color="0.6", linewidth=0.8)
            for name, course in courses[courses["rate"] == rate].groupby("learner"):
                ax.plot(course["epoch"], course[quantity], label=name)
                low, high = (course[quantity] + sign * course[f"{quantity}_std_error"] for sign in (-1, 1))
                ax.fill_between(course["epoch"], low, high, alpha=0.25)
            if column == 0:
                ax.set_ylabel(label)
        axes[0, column].set_title(f"learning rate {rate:g}", fontsize=10)
        for ax in axes[:, column]:
            ax.set_yscale("symlog", linthresh=0.5)
            ax.set_yticks([-1, 0, 1, 10, 100])
        axes[1, column].set_xlabel("epoch")
    axes[0, 0].legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default="learning_rates.png")
    arguments = parser.parse_args()
    source, numbers = IHDP(Path(arguments.data)), range(20)
    OUT.parent.mkdir(exist_ok=True)
    courses = pd.read_csv(OUT) if OUT.exists() else pd.DataFrame(columns=["learner", "rate"])
    for name, rate in tqdm([(name, rate) for name in LEARNERS for rate in RATES]):
        if not ((courses["learner"] == name) & (courses["rate"] == rate)).any():
            courses = pd.concat([courses, course(source, numbers, name, rate)], ignore_index=True)
            courses.round(5).to_csv(OUT, index=False)
    courses = pd.read_csv(OUT)  # as in the file, so that the summary can be checked against it
    late = courses[courses["epoch"] > SETTLED]
    largest = late.groupby(["learner", "rate"])[["rr_anchor", "ipw"]].agg(lambda values: values.abs().max())
    facts = {
        "largest |mean over data sets| after epoch 50": {
            f"{name}, learning rate {rate:g}": {key: round(float(value), 4) for key, value in row.items()}
            for (name, rate), row in largest.iterrows()
        },
    }
    record(OUT.with_suffix(".json"), "python benchmarks/paper/learning_rates.py", facts)
    print(json.dumps(facts, indent=2))
    draw(courses, arguments.out)


if __name__ == "__main__":
    main()
