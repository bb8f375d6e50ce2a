"""Names of covariance estimators in other packages, and how to get the same standard errors here."""

from __future__ import annotations

import re

from riesz.errors import RieszError

#: Advice by the pattern of the name.
_ADVICE = {
    "robust|hc[0-9]?|white|sandwich|hetero.*": (
        "standard errors are robust to heteroskedasticity by default; with_cov() without an argument gives them."
    ),
    "nonrobust|non-robust|classical|unadjusted|homosk.*|iid|ols|standard": (
        "only robust and clustered standard errors are available; with_cov() without an argument gives the robust ones."
    ),
    "(robust[ -_])?clust.*|crv?[0-9]?": (
        "name the column that holds the clusters, as in with_cov(cluster='school'), or give one label per row."
    ),
    "hac.*|newey.*|kernel|driscoll.*|hac-.*": (
        "standard errors for serial correlation are not available; with_cov(cluster='unit') allows for any correlation within a "
        "unit."
    ),
}


def refuse_cov_type(name: str) -> None:
    """Refuse a name such as "HC1" where a column of clusters is expected, and say what to do instead."""
    for pattern, advice in _ADVICE.items():
        if re.fullmatch(pattern, name, re.I):
            raise RieszError(f"with_cov({name!r}): {advice}")
