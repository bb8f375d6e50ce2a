"""The paper's tables and ours, from committed result files.

    python benchmarks/paper/tables.py                            print the tables
    python benchmarks/paper/tables.py --write                    and put them into benchmarks/paper/README.md
    python benchmarks/paper/tables.py --run 1 --data DATA        first run the missing fits of Table 1 (or 2, or 3)

A run can be stopped at any time, and the same command resumes it. Learners of Table 1 and the multi-headed ones of Table 2 are run
on all data sets, the others on IHDP 0-199 and BHP 0-99. Errors on BHP are shown in the paper's definition, relative to the truth
divided by the treatment's range, and in natural units. "Apart" is the difference between two mean absolute errors in standard
errors, treating them as independent.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
README = HERE / "README.md"
ALL = {"ihdp": 1000, "bhp": 200}  # data sets of a scenario
SUBSET = {"ihdp": 200, "bhp": 100}  # of the supplement's variants


def results(scenario: str, learner: str) -> pd.DataFrame | None:
    """Results without sample splitting, one row per data set; None if there are none."""
    file = RESULTS / f"{scenario}_{learner}_folds1_repeats1.csv"
    return pd.read_csv(file) if file.exists() else None


def errors(frame: pd.DataFrame, column: str, as_printed: bool) -> pd.Series:
    """Absolute errors; those printed in the paper are relative to the truth divided by the treatment's range."""
    return (frame[column] - frame["truth"] / (frame["range"] if as_printed else 1.0)).abs()


def number(mean: float, error: float) -> str:
    return f"{mean:.3f} ± {error:.3f}"


def cells(row: pd.Series) -> dict[str, str]:
    """Our numbers for a row of the paper's table."""
    frame = results(row["scenario"], row["learner"])
    if frame is None or row["column"] not in frame:
        return {"ours": "not run"}
    printed = errors(frame, row["column"], as_printed=True)
    distance = (printed.mean() - row["mae"]) / np.hypot(printed.sem(), row["std_error"])
    numbers = {
        "ours": number(printed.mean(), printed.sem()),
        "apart": f"{distance:+.1f}",
        "median": f"{printed.median():.3f}",
        "data sets": f"{len(printed)}",
    }
    if row["scenario"] == "bhp":
        natural = errors(frame, row["column"], as_printed=False)
        numbers["natural"] = number(natural.mean(), natural.sem())
    return numbers


def markdown(frame: pd.DataFrame) -> str:
    lines = [list(frame.columns), ["---"] * frame.shape[1], *frame.fillna("").to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def first(published: pd.DataFrame) -> str:
    lines: dict[str, dict[str, str]] = {}
    for _, row in published.query("table == 1").iterrows():
        line, name, ours = lines.setdefault(row["row"], {"row": row["row"]}), row["scenario"].upper(), cells(row)
        count = ours.get("data sets", str(ALL[row["scenario"]]))
        line |= {
            f"{name} `--learner`, column": f"`{row['learner']}`, `{row['column']}`",
            f"{name}, paper": number(row["mae"], row["std_error"]),
            f"{name}, ours": ours["ours"] + ("" if count == str(ALL[row["scenario"]]) else f" ({count} only)"),
            f"{name}, apart": ours.get("apart", ""),
            f"{name}, natural units": ours.get("natural", ""),
        }
    order = ["row"]
    for name in ("IHDP", "BHP"):
        order += [f"{name} `--learner`, column", f"{name}, paper", f"{name}, ours", f"{name}, apart"]
    return markdown(pd.DataFrame(lines.values())[[*order, "BHP, natural units"]])


def supplement(published: pd.DataFrame, table: int) -> str:
    lines = []
    for _, row in (
        published[published["table"] == table].sort_values("scenario", ascending=False, kind="stable").iterrows()
    ):
        ours = cells(row)
        lines.append(
            {
                "scenario": row["scenario"].upper(),
                "row": row["row"],
                "architecture": row["architecture"],
                "`--learner`": f"`{row['learner']}`",
                "paper": number(row["mae"], row["std_error"]),
                "ours": ours["ours"],
                "apart": ours.get("apart", ""),
                "paper, median": f"{row['median']:.3f}",
                "ours, median": ours.get("median", ""),
                "ours, natural units": ours.get("natural", ""),
                "data sets": ours.get("data sets", ""),
            }
        )
    return markdown(pd.DataFrame(lines))


def cost(published: pd.DataFrame, table: int) -> str:
    """The processor time of a table, from its result files."""
    seconds, not_run = 0.0, []
    for (scenario, learner), count in planned(published, table).items():
        frame = results(scenario, learner)
        if frame is None:
            not_run.append(f"`{learner}`")
        else:
            seconds += frame["cpu_seconds"].mean() * count
    without = f" without {', '.join(not_run)}, not run" if not_run else ""
    return f"Processor time{without}: {seconds / 3600:.1f} hours, half of that on two cores."


def tables() -> dict[int, str]:
    """Each table of the paper as markdown."""
    published = pd.read_csv(HERE / "published.csv")
    content = {1: first(published), 2: supplement(published, 2), 3: supplement(published, 3)}
    return {table: f"{text}\n\n{cost(published, table)}" for table, text in content.items()}


def placed(text: str) -> str:
    """The text with its tables, which are between markers, replaced."""
    for table, content in tables().items():
        start, end = f"<!-- table {table} -->\n", f"<!-- end of table {table} -->"
        text, count = re.subn(
            f"{start}.*?{end}", lambda _, body=start + content + "\n" + end: body, text, flags=re.DOTALL
        )
        if count != 1:
            raise SystemExit(f"{README.name} must have one place for table {table}, between {start.strip()} and {end}.")
    return text


def planned(published: pd.DataFrame, table: int) -> dict[tuple[str, str], int]:
    """The number of data sets per scenario and learner of a table."""
    main = published["table"].eq(1) | (published["table"].eq(2) & published["architecture"].eq("multiheaded"))
    pairs = published[["scenario", "learner"]].agg(tuple, axis=1)
    return {key: (ALL if key in set(pairs[main]) else SUBSET)[key[0]] for key in pairs[published["table"] == table]}


def run(table: int, data: str, jobs: int) -> None:
    """Fit the missing data sets of a table."""
    sys.path.insert(0, str(HERE.parent))
    import semisynthetic

    for (scenario, learner), count in planned(pd.read_csv(HERE / "published.csv"), table).items():
        study = semisynthetic.Study(scenario, learner)
        study.show(study.run(data, list(range(count)), jobs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into the README, too")
    parser.add_argument("--run", type=int, choices=(1, 2, 3), help="a table whose missing fits are run first")
    parser.add_argument("--data", help="the folder with the IHDP and BHP files")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.run:
        if arguments.data is None:
            parser.error("--run needs --data, the folder with the IHDP and BHP files")
        run(arguments.run, arguments.data, arguments.jobs)
    for table, content in tables().items():
        print(f"\nTable {table}\n\n{content}")
    if arguments.write:
        README.write_text(placed(README.read_text()))


if __name__ == "__main__":
    main()
