r"""Fits side by side: one column per fit, with estimates, standard errors below them, and facts about the fit.

In: fits, and results of other packages that have the attributes of statsmodels. Out: a :class:`Comparison`, which is rendered as
text, HTML, LaTeX and Markdown.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from tabulate import tabulate

from riesz.errors import RieszError
from riesz.plots.selection import check_names, select
from riesz.results.notes import about_estimator
from riesz.results.parameters import Parameters
from riesz.results.summary_table import CELL, RULE, TABLE, number, tex
from riesz.syntax.check_arguments import checked, checked_methods

_STARS = ((0.01, "***"), (0.05, "**"), (0.1, "*"))
_NOTE = "Standard errors in parentheses."
_NARROW = 60  # characters per line of the note, at least
_STARS_NOTE = " * p < 0.1, ** p < 0.05, *** p < 0.01."


@checked_methods()
@dataclass(frozen=True)
class Comparison:
    r"""A table of fits, made by :func:`compare`; text if printed, a table in notebooks.

    Attributes
    ----------
    names : tuple of str
        Names of the fits.
    estimates : sequence of (str, tuple of str)
        Rows of estimates; below each is a row of standard errors, with an empty name.
    facts : sequence of (str, tuple of str)
        Rows of facts about each fit.
    note : str

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> fits = [verb("y ~ treat(a) * .", data, learner="linear") for verb in (riesz.ate, riesz.att)]
    >>> riesz.compare(*fits)
    ==============================================================================
                                             (1) y                           (2) y
    ------------------------------------------------------------------------------
    ATE                                     1.4553
                                          (0.1791)
    ATT                                                                     1.6655
                                                                          (0.1867)
    ------------------------------------------------------------------------------
    Observations                               500                             500
    Learner         Linear (ridge, rr constrained)  Linear (ridge, rr constrained)
    Estimator                                   dr                              dr
    Std. errors                             robust                          robust
    ==============================================================================
    Standard errors in parentheses.
    """

    names: tuple[str, ...]
    estimates: Sequence[tuple[str, tuple[str, ...]]]
    facts: Sequence[tuple[str, tuple[str, ...]]]
    note: str

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__

    def as_text(self) -> str:
        """Plain text.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(riesz.compare(fit).as_text())
        ==============================================
                                                 (1) y
        ----------------------------------------------
        ATE                                     1.3076
                                              (0.2003)
        ----------------------------------------------
        Observations                               300
        Learner         Linear (ridge, rr constrained)
        Estimator                                   dr
        Std. errors                             robust
        ==============================================
        Standard errors in parentheses.
        """
        rows = [("", self.names), *self.estimates, *self.facts]
        stub = max(len(name) for name, _ in rows) + 2
        widths = [max(len(cells[j]) for _, cells in rows) + 2 for j in range(len(self.names))]
        lines = [
            name.ljust(stub) + "".join(c.rjust(w) for c, w in zip(cells, widths, strict=True)) for name, cells in rows
        ]
        width, split = stub + sum(widths), 1 + len(self.estimates)
        thick, thin = "=" * width, "-" * width
        note = textwrap.wrap(self.note, max(width, _NARROW))
        return "\n".join([thick, lines[0], thin, *lines[1:split], thin, *lines[split:], thick, *note])

    def as_html(self) -> str:
        """HTML, as a notebook shows it.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> "<table" in riesz.compare(fit).as_html()
        True
        """
        thin = ";border-top:1px solid currentColor"
        ruled = {0, len(self.estimates)}

        def row(name: str, cells: Sequence[str], rule: str, tag: str) -> str:
            stub = f'<th style="{CELL};text-align:left{rule}">{escape(name)}</th>'
            start = f'<{tag} style="{CELL};text-align:right{rule}">'
            return f"<tr>{stub}{''.join(f'{start}{escape(cell)}</{tag}>' for cell in cells)}</tr>"

        body = [*self.estimates, *self.facts]
        lines = [row(name, cells, thin if i in ruled else "", "td") for i, (name, cells) in enumerate(body)]
        return (
            '<div class="riesz-comparison" style="display:inline-block;max-width:100%;overflow-x:auto">'
            f'<table style="{TABLE}"><thead>{row("", self.names, "", "th")}</thead><tbody>{"".join(lines)}</tbody></table>'
            f'<div style="border-top:{RULE};padding-top:.4em;font-size:.85em;opacity:.8">{escape(self.note)}</div></div>'
        )

    _repr_html_ = as_html

    def as_latex(self) -> str:
        r"""A LaTeX tabular, which needs the booktabs package.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(riesz.compare(fit).as_latex())
        \begin{tabular}{lc}
        \toprule
         & (1) y \\
        \midrule
        ATE & 1.3076 \\
         & (0.2003) \\
        \midrule
        Observations & 300 \\
        Learner & Linear (ridge, rr constrained) \\
        Estimator & dr \\
        Std. errors & robust \\
        \bottomrule
        \multicolumn{2}{l}{\footnotesize Standard errors in parentheses.} \\
        \end{tabular}
        """

        def line(name: str, cells: Sequence[str]) -> str:
            return " & ".join(tex(cell) for cell in (name, *cells)) + r" \\"

        columns = len(self.names)
        return "\n".join(
            [
                rf"\begin{{tabular}}{{l{'c' * columns}}}",
                r"\toprule",
                line("", self.names),
                r"\midrule",
                *(line(*row) for row in self.estimates),
                r"\midrule",
                *(line(*row) for row in self.facts),
                r"\bottomrule",
                rf"\multicolumn{{{columns + 1}}}{{l}}{{\footnotesize {tex(self.note)}}} \\",
                r"\end{tabular}",
            ]
        )

    def as_markdown(self) -> str:
        """A Markdown table.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
        >>> print(riesz.compare(fit).as_markdown())
        |              | (1) y                          |
        |--------------|--------------------------------|
        | ATE          | 1.3076                         |
        |              | (0.2003)                       |
        | Observations | 300                            |
        | Learner      | Linear (ridge, rr constrained) |
        | Estimator    | dr                             |
        | Std. errors  | robust                         |
        """
        rows = [[name, *cells] for name, cells in (*self.estimates, *self.facts)]
        safe = [[cell.replace("|", r"\|").replace("*", r"\*") for cell in row] for row in rows]
        head = ["", *(name.replace("|", r"\|") for name in self.names)]
        return str(tabulate(safe, headers=head, tablefmt="github", disable_numparse=True))


@checked("riesz.compare()")
def compare(
    *fits: Any,
    names: Sequence[str] | None = None,
    stars: bool = False,
    keep: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
) -> Comparison:
    """Fits side by side: estimates with standard errors, and how each was obtained.

    Parameters
    ----------
    *fits : Results, Effects, or results of statsmodels and the like
        Anything with ``params``, ``bse``, ``pvalues`` and ``nobs``.
    names : sequence of str, optional
        Names of the columns; by default a number and the outcome.
    stars : bool
        Mark estimates by their p-values.
    keep : sequence of str, optional
        The parameters to show, by their names in the fits or by new names; by default all.
    rename : mapping, optional
        New names, which put parameters with different names in one row: ``{"a": "ATE"}``.

    Returns
    -------
    Comparison
        With ``as_text()``, ``as_html()``, ``as_latex()`` and ``as_markdown()``.

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> plain, rich = (riesz.ate(f"y ~ treat(a) {sign} .", data, learner="linear") for sign in "+*")
    >>> riesz.compare(plain, rich, names=["plain", "rich"])
    ==============================================================================
                                             plain                            rich
    ------------------------------------------------------------------------------
    ATE                                     1.4339                          1.4553
                                          (0.1787)                        (0.1791)
    ------------------------------------------------------------------------------
    Observations                               500                             500
    Learner         Linear (ridge, rr constrained)  Linear (ridge, rr constrained)
    Estimator                                   dr                              dr
    Std. errors                             robust                          robust
    ==============================================================================
    Standard errors in parentheses.

    Beside least squares, where the coefficient of the treatment has the treatment's name:

    >>> import statsmodels.formula.api as smf
    >>> ols = smf.ols("y ~ a + x1 + x2", data).fit(cov_type="HC1")
    >>> riesz.compare(rich, ols, names=["riesz", "OLS"], keep=["ATE"], rename={"a": "ATE"})
    ========================================================
                                             riesz       OLS
    --------------------------------------------------------
    ATE                                     1.4553    1.4447
                                          (0.1791)  (0.1772)
    --------------------------------------------------------
    Observations                               500       500
    Learner         Linear (ridge, rr constrained)       OLS
    Estimator                                   dr
    Std. errors                             robust       HC1
    ========================================================
    Standard errors in parentheses.
    """
    for fit in fits:
        missing = [name for name in ("params", "bse", "pvalues", "nobs") if not hasattr(fit, name)]
        if missing:
            raise RieszError(f"compare() got a {type(fit).__name__}, which has no {missing[0]}; expected fits.")
    if not fits:
        raise RieszError("compare() got no fits; expected at least one, as in riesz.compare(fit, other).")
    check_names(names, len(fits))
    tables = select([_column(fit) for fit in fits], keep, rename)
    terms = list(dict.fromkeys(term for table in tables for term in table.index))
    estimates = []
    for term in terms:
        estimates.append((str(term), tuple(_estimate(table, term, stars) for table in tables)))
        estimates.append(("", tuple(_error(table, term) for table in tables)))
    described = [_facts(fit) for fit in fits]
    keys = dict.fromkeys(key for facts in described for key in facts)
    facts = [(key, tuple(column.get(key, "") for column in described)) for key in keys]
    numbered = [f"({number_}) {_outcome(fit)}".strip() for number_, fit in enumerate(fits, 1)]
    reasons = [reason for fit in fits if isinstance(fit, Parameters) for reason in about_estimator(fit.model)]
    note = " ".join([_NOTE + (_STARS_NOTE if stars else ""), *dict.fromkeys(reasons)])
    return Comparison(tuple(names or numbered), estimates, facts, note)


def _column(fit: Any) -> pd.DataFrame:
    params = pd.Series(fit.params)
    return pd.DataFrame(
        {"b": params, "se": np.asarray(fit.bse, dtype=float), "p": np.asarray(fit.pvalues, dtype=float)},
        index=params.index,
    )


def _estimate(table: pd.DataFrame, term: Any, stars: bool) -> str:
    if term not in table.index:
        return ""
    mark = next((mark for level, mark in _STARS if table.loc[term, "p"] < level), "") if stars else ""
    return number(table.loc[term, "b"]) + mark


def _error(table: pd.DataFrame, term: Any) -> str:
    return f"({number(table.loc[term, 'se'])})" if term in table.index else ""


def _outcome(fit: Any) -> str:
    return str(getattr(getattr(fit, "model", None), "endog_names", ""))


def _facts(fit: Any) -> dict[str, str]:
    facts = {"Observations": f"{int(fit.nobs):,}"}
    if not isinstance(fit, Parameters):
        errors = getattr(fit, "cov_type", None)  # as in statsmodels and linearmodels
        other = {**facts, "Learner": type(getattr(fit, "model", fit)).__name__}
        return {**other, "Std. errors": errors} if isinstance(errors, str) else other
    model = fit.model
    return {
        **facts,
        "Learner": model.learner.describe(model.blueprint.design.family),
        "Estimator": model.settings.estimator,
        "Std. errors": "none" if about_estimator(model) else fit.cov_type,
    }


@checked("riesz.register_stargazer()")
def register_stargazer() -> None:
    r"""Register fits with the stargazer package: ``Stargazer([fit, ols])`` works after this call.

    Examples
    --------
    >>> import pytest, riesz
    >>> _ = pytest.importorskip("stargazer")
    >>> riesz.register_stargazer()
    >>> from stargazer.stargazer import Stargazer
    >>> data = riesz.datasets.get("binary").draw(300, seed=1).data
    >>> fit = riesz.ate("y ~ treat(a) * (x1 + x2)", data, learner="linear")
    >>> [line for line in Stargazer([fit]).render_latex().splitlines() if "ATE" in line]
    [' ATE & 1.308$^{***}$ \\\\']
    """
    try:
        from stargazer.translators import register_class
    except ImportError:
        raise RieszError("register_stargazer() needs the package stargazer: pip install stargazer.") from None
    register_class(Parameters, _stargazer)


def _stargazer(fit: Parameters) -> dict[str, Any]:
    interval = fit.conf_int()
    absent = (
        "r2",
        "r2_adj",
        "pseudo_r2",
        "f_p_value",
        "f_statistic",
        "degree_freedom",
        "degree_freedom_resid",
        "resid_std_err",
    )
    return {
        "dependent_variable": fit.model.endog_names,
        "cov_names": fit.params.index.to_numpy(),
        "cov_values": fit.params,
        "cov_std_err": fit.bse,
        "p_values": fit.pvalues,
        "conf_int_low_values": interval[0],
        "conf_int_high_values": interval[1],
        "nobs": fit.nobs,
        **dict.fromkeys(absent),
    }
