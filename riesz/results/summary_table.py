"""Summaries as plain text, HTML, LaTeX and CSV, from the same tables.

In: a title, facts and tables of numbers already formatted as text. Out: a :class:`Summary`. The text looks like statsmodels'
(two columns of facts, a table of parameters, notes), the HTML takes the colours of the page, the LaTeX uses booktabs.
"""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import pandas as pd

Fact = tuple[str, str]

_WIDTH = 78
_WIDEST = 48  # characters per line of a fact; a stack of learners may need several lines
RULE = "1.5px solid currentColor"
TABLE = (
    f"border-collapse:collapse;border:none;border-top:{RULE};width:100%;margin:0;"
    "font-variant-numeric:tabular-nums;background:transparent"
)
_SYMBOLS = {
    "psi = ": "\u03c8 = ",
    "mu(": "\u03bc(",
    "mu /": "\u03bc /",
    "(mu": "(\u03bc",
    "pi ": "\u03c0 ",
    " - ": " \u2212 ",
}
CELL = "padding:.2em .7em;border:none;background:transparent"
_TEX = str.maketrans(
    {c: rf"\{c}" for c in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
    | {"|": r"$|$", ">": r"$>$", "<": r"$<$", "*": r"$\cdot$"}
)


@dataclass(frozen=True)
class Summary:
    r"""A summary: text if printed, a table in notebooks, and LaTeX or CSV on request.

    Attributes
    ----------
    title, subtitle : str
        The estimand in words and in symbols.
    left, right : sequence of (name, value)
        Facts about the fit, in two columns.
    tables : sequence of pandas.DataFrame
        The parameters first, then the point estimates by all estimators, and further tables if there are any. All cells are
        text; a table's ``columns.name`` is its heading.
    notes : sequence of str
        Sentences below the tables.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> summary = riesz.ate("y ~ treat(a) * .", data, learner="linear").summary()
    >>> print(summary.tables[0])
           coef std err      z  P>|z|  [0.025  0.975]
    ATE  1.4553  0.1791  8.125  0.000  1.1042  1.8063
    """

    title: str
    subtitle: str
    left: Sequence[Fact]
    right: Sequence[Fact]
    tables: Sequence[pd.DataFrame]
    notes: Sequence[str]

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__

    def as_text(self) -> str:
        """Plain text, 78 columns wide unless a name needs more."""
        left, right = _columns_of_facts(self.left), _columns_of_facts(self.right)
        half = (_WIDTH - 3) // 2
        left_width, right_width = (max(half, *(len(a) + len(b) + 2 for a, b in side)) for side in (left, right))
        width = left_width + right_width + 3
        facts = [
            f"{_spread(*fact, left_width)}   {_spread(*beside, right_width)}".rstrip()
            for fact, beside in _pairs(left, right)
        ]
        notes = [
            line for note in [self.subtitle, *self.notes] for line in textwrap.wrap(note, width, subsequent_indent="  ")
        ]
        thick, thin = "=" * width, "-" * width
        return "\n".join(
            [
                self.title.center(width).rstrip(),
                thick,
                *facts,
                thick,
                *(line for table in self.tables for line in [*_text_table(table, width, thin), thick]),
                *notes,
            ]
        )

    def as_html(self) -> str:
        """HTML, as a notebook shows it."""
        facts = "".join(
            f"<tr>{_html_fact(*fact)}{_html_fact(*beside)}</tr>" for fact, beside in _pairs(self.left, self.right)
        )
        notes = "".join(f"<div>{escape(_pretty(note))}</div>" for note in self.notes)
        return (
            '<div class="riesz-summary" style="display:inline-block;max-width:100%;overflow-x:auto">'
            f'<div style="font-weight:600;font-size:1.05em">{escape(self.title)}</div>'
            f'<div style="opacity:.75;font-style:italic;margin-bottom:.5em">{escape(_pretty(self.subtitle))}</div>'
            f'<table style="{TABLE}">{facts}</table>'
            f"{''.join(map(_html_table, self.tables))}"
            f'<div style="border-top:{RULE};padding-top:.4em;font-size:.85em;line-height:1.5">'
            f'<div style="opacity:.8;max-width:56em">{notes}</div></div></div>'
        )

    _repr_html_ = as_html

    def as_latex(self) -> str:
        """LaTeX; needs the booktabs package."""
        facts = "; ".join(f"{name}: {value}" for name, value in [*self.left, *self.right])
        notes = " ".join(note if note.endswith(".") else f"{note}." for note in (self.subtitle, facts, *self.notes))
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{tex(self.title)}}}",
                *(line for table in self.tables for line in [*_tex_table(table), r"\par\medskip"]),
                rf"\begin{{minipage}}{{.9\linewidth}}\footnotesize {tex(notes)}\end{{minipage}}",
                r"\end{table}",
            ]
        )

    def as_csv(self) -> str:
        """Comma-separated values: facts, then the tables."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([[self.title], *self.left, *self.right, []])
        for table in self.tables:
            writer.writerows([_head(table), *_rows(table), []])
        return out.getvalue()


def number(value: float, digits: int = 4) -> str:
    """A number as regression tables show it; a dash if it is missing."""
    if np.isnan(value):
        return "-"
    size = abs(value)
    if 1e6 <= size < 1e9:  # all digits, so that the two ends of an interval differ
        return f"{value:.0f}"
    if size and (size >= 1e9 or size < 10.0 ** (1 - digits)):
        return f"{value:.3g}"
    return f"{value:.{digits}f}" if size < 1e3 else f"{value:.2f}"


def _pairs(left: Sequence[Fact], right: Sequence[Fact]) -> list[tuple[Fact, Fact]]:
    longest = max(len(left), len(right))
    padded = [[*side, *[("", "")] * (longest - len(side))] for side in (left, right)]
    return list(zip(*padded, strict=True))


def _columns_of_facts(facts: Sequence[Fact]) -> list[Fact]:
    """The facts line by line; a long value continues on lines without a name."""
    lines: list[Fact] = []
    for name, value in facts:
        first, *rest = textwrap.wrap(value, _WIDEST, break_long_words=False, break_on_hyphens=False) or [""]
        lines += [(f"{name}:", first), *(("", line) for line in rest)]
    return lines


def _spread(name: str, value: str, width: int) -> str:
    return name + value.rjust(width - len(name))


def _pretty(text: str) -> str:
    for plain, symbol in _SYMBOLS.items():
        text = text.replace(plain, symbol)
    return text


def _head(table: pd.DataFrame) -> list[str]:
    return [table.columns.name or "", *map(str, table.columns)]


def _rows(table: pd.DataFrame) -> list[list[str]]:
    return [[str(name), *row] for name, row in zip(table.index, table.to_numpy().tolist(), strict=True)]


def _text_table(table: pd.DataFrame, width: int, thin: str) -> list[str]:
    rows = [_head(table), *_rows(table)]
    stub = max(len(row[0]) for row in rows)
    cells = [max(len(row[j]) for row in rows) + 2 for j in range(1, len(rows[0]))]
    spare = max(0, width - stub - sum(cells))
    cells = [cell + spare // len(cells) for cell in cells]
    stub = max(stub, width - sum(cells))
    lines = [row[0].ljust(stub) + "".join(v.rjust(c) for v, c in zip(row[1:], cells, strict=True)) for row in rows]
    return [lines[0], thin, *lines[1:]]


def _html_fact(name: str, value: str) -> str:
    return (
        f'<td style="{CELL};text-align:left;opacity:.7">{escape(name)}</td>'
        f'<td style="{CELL};text-align:right">{escape(value)}</td>'
    )


def _html_table(table: pd.DataFrame) -> str:
    thin = "border-bottom:1px solid currentColor"
    stub, *names = _head(table)
    head = f'<th style="{CELL};text-align:left;font-weight:400;opacity:.7;{thin}">{escape(stub)}</th>' + "".join(
        f'<th style="{CELL};text-align:right;{thin}">{escape(name)}</th>' for name in names
    )
    body = "".join(
        f'<tr><th style="{CELL};text-align:left">{escape(row[0])}</th>'
        + "".join(f'<td style="{CELL};text-align:right">{escape(value)}</td>' for value in row[1:])
        + "</tr>"
        for row in _rows(table)
    )
    return f'<table style="{TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def tex(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return text.translate(_TEX)


def _tex_table(table: pd.DataFrame) -> list[str]:
    lines = [" & ".join(map(tex, row)) + r" \\" for row in _rows(table)]
    head = " & ".join(map(tex, _head(table))) + r" \\"
    columns = "l" + "r" * table.shape[1]
    return [
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        head,
        r"\midrule",
        *lines,
        r"\bottomrule",
        r"\end{tabular}",
    ]
