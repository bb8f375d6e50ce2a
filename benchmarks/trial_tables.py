"""Tables of the records that ``trials.run`` returns: coverage, errors in oracle standard errors, widths, warnings and time.

With estimate and its standard error se, truth, and the oracle's estimate and standard error (the one-step estimate from the true
mu and rr on the same draw), each interval has z = (estimate - truth) / se, a distance (estimate - oracle) / oracle se, an error
(estimate - truth) / oracle se and a width relative to the oracle's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

ALL = "all"
Record = Mapping[str, Any]
Limits = tuple[float, float]

#: targets of the default learner on random worlds, lowest and highest value, for the fits without an error
TARGETS: dict[str, Limits] = {
    "errors": (0, 0),
    "coverage_unwarned": (0.93, 0.97),
    "coverage": (0.91, 1.0),
    "share_warned": (0.0, 0.15),
    "rms_z": (0.0, 1.10),
    "share_beyond_3": (0.0, 0.01),
    "rms_distance": (0.0, 0.45),
    "median_width": (0.0, 1.08),
}


def intervals(records: Sequence[Record]) -> pd.DataFrame:
    """One row per fit and parameter, with z, distance, error and width; missing where the fit raised an error."""
    rows = []
    for record in records:
        facts = {
            "key": record["key"],
            "has_error": record["error"] is not None,
            "warned": bool(record.get("warnings")),
            "seconds": record["seconds"],
            **{f"factor {name}": level for name, level in record["labels"].items()},
        }
        rows += [{**facts, **parameter} for parameter in record["parameters"]]
    frame = pd.DataFrame(rows)
    numbers = ["estimate", "std_error", "low", "high", "truth", "oracle", "oracle_std_error", "covered"]
    frame[numbers] = frame[numbers].astype(float)
    scale = frame["oracle_std_error"]
    return frame.assign(
        z=(frame["estimate"] - frame["truth"]) / frame["std_error"],
        distance=(frame["estimate"] - frame["oracle"]) / scale,
        oracle_error=(frame["estimate"] - frame["truth"]) / scale,
        width=(frame["high"] - frame["low"]) / (2 * norm.ppf(0.975) * scale),
    )


def figures(frame: pd.DataFrame) -> dict[str, float]:
    """Summary figures of some intervals; fits that raised an error are counted, and left out otherwise."""
    fitted = frame[~frame["has_error"]]
    covered, warned = fitted["covered"], fitted["warned"]
    return {
        "fits": frame["key"].nunique(),
        "errors": int(frame.loc[frame["has_error"], "key"].nunique()),
        "intervals": len(fitted),
        "coverage": covered.mean(),
        "coverage_unwarned": covered[~warned].mean(),
        "coverage_warned": covered[warned].mean(),
        "share_warned": warned.mean(),
        "rms_z": _rms(fitted["z"]),
        "share_beyond_3": (fitted["z"].abs() > 3).mean() if fitted["z"].notna().any() else np.nan,
        "rms_distance": _rms(fitted["distance"]),
        "rms_oracle_error": _rms(fitted["oracle_error"]),
        "bias_oracle_error": fitted["oracle_error"].mean(),
        "median_width": fitted["width"].median(),
        "median_seconds": fitted.drop_duplicates("key")["seconds"].median(),
    }


def _rms(values: pd.Series) -> float:
    return float(np.sqrt((values**2).mean()))


def _rounded(value: float) -> float | None:
    if isinstance(value, int):
        return value
    return round(float(value), 4) if np.isfinite(value) else None


def by_factor(frame: pd.DataFrame) -> pd.DataFrame:
    """The figures of all intervals, and of those at each level of each factor."""
    lines = [{"factor": ALL, "level": ALL, **figures(frame)}]
    for column in [name for name in frame if name.startswith("factor ")]:
        for level in _ordered(frame[column]):
            lines.append(
                {"factor": column.removeprefix("factor "), "level": level, **figures(frame[frame[column] == level])}
            )
    return pd.DataFrame(lines)


def _ordered(levels: pd.Series) -> list[str]:
    """Sort ranges such as 300-800 by their first number, and words alphabetically."""
    return sorted(
        levels.unique(), key=lambda level: (float(first) if (first := level.split("-")[0]).isdigit() else 0, level)
    )


def judged(overall: Mapping[str, float], targets: Mapping[str, Limits] = TARGETS) -> dict[str, dict[str, Any]]:
    """Each target with its limits, the value and whether it is met."""
    return {
        name: {
            "value": _rounded(overall[name]),
            "from": low,
            "to": high,
            "met": bool(low <= overall[name] <= high),
        }
        for name, (low, high) in targets.items()
    }


def warning_shares(records: Sequence[Record], factor: str | None = None) -> dict[str, Any]:
    """The share of fits with each warning; by the levels of a factor, if one is given."""
    if factor is not None:
        levels = _ordered(pd.Series([record["labels"][factor] for record in records]))
        return {
            level: warning_shares([record for record in records if record["labels"][factor] == level])
            for level in levels
        }
    fitted = [record for record in records if record["error"] is None]
    counts = Counter(kind for record in fitted for kind in set(record.get("warnings") or ()))
    return {kind: round(count / len(fitted), 4) for kind, count in counts.most_common()}


def candidates(records: Sequence[Record]) -> pd.DataFrame | None:
    """The figures of each candidate of a stack by itself; None if the records have no candidates."""
    lines = []
    for record in records:
        truths = {parameter["parameter"]: parameter for parameter in record["parameters"]}
        for entry in record.get("candidates") or ():
            if not {"candidate", "estimate", "std_error"} <= entry.keys():
                return None
            parameter = truths[entry.get("parameter", next(iter(truths)))]
            kept = {name: parameter[name] for name in ("truth", "oracle", "oracle_std_error")}
            lines.append({**kept, **{name: entry[name] for name in ("candidate", "estimate", "std_error")}})
    if not lines:
        return None
    frame = pd.DataFrame(lines)
    error = (frame["estimate"] - frame["truth"]).astype(float)
    z = error / frame["std_error"].astype(float)
    frame = frame.assign(
        covered=(z.abs() <= norm.ppf(0.975)).astype(float),
        distance=(frame["estimate"] - frame["oracle"]).astype(float) / frame["oracle_std_error"],
        z=z,
    )
    return frame.groupby("candidate", sort=False).agg(
        intervals=("z", "size"),
        coverage=("covered", "mean"),
        rms_z=("z", _rms),
        rms_distance=("distance", _rms),
        median_std_error=(
            "std_error",
            lambda values: float((values / frame.loc[values.index, "oracle_std_error"]).median()),
        ),
    )


def facts(records: Sequence[Record], frame: pd.DataFrame) -> dict[str, Any]:
    """The content of the JSON file beside a table: overall figures, targets, warnings, errors and versions of the library."""
    overall = figures(frame)
    covered = frame.loc[~frame["has_error"], "covered"]
    alone = candidates(records)
    return {
        "overall": {name: _rounded(value) for name, value in overall.items()},
        "coverage_std_error": round(float(covered.std() / np.sqrt(max(len(covered), 1))), 4)
        if len(covered) > 1
        else None,
        "targets": judged(overall),
        "warnings": warning_shares(records),
        "errors": dict(Counter(record["error"] for record in records if record["error"]).most_common()),
        "library": dict(Counter(record["library"] for record in records)),
        **({} if alone is None else {"candidates": alone.round(4).to_dict("index")}),
    }


def shown(table: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    """Table, targets, warnings and errors, as text."""
    lines = [table.round(3).to_string(index=False), ""]
    for name, entry in facts["targets"].items():
        value = "none" if entry["value"] is None else f"{entry['value']:.4g}"
        lines.append(
            f"{name:20} {value:>8}   {entry['from']:g} to {entry['to']:g}   {'met' if entry['met'] else 'NOT met'}"
        )
    lines += [f"warned by {kind}: {share:.1%}" for kind, share in facts["warnings"].items()]
    lines += [f"{count} x error: {error}" for error, count in facts["errors"].items()]
    if len(facts["library"]) > 1:
        lines.append(f"These fits are from several versions of the library: {facts['library']}")
    return "\n".join(lines)
