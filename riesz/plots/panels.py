"""Four panels that show a fit at a glance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from riesz.errors import RieszError, pick
from riesz.plots.arguments import Fitted, plot_of_fit
from riesz.plots.balance import balance
from riesz.plots.canvas import pyplot, title_above
from riesz.plots.estimates import estimators
from riesz.plots.influence import qq
from riesz.plots.labelled_rows import wrap
from riesz.plots.weights import overlap, representer

_MOST = 12  # covariates in the balance panel


@plot_of_fit
def panels(fit: Fitted, parameter: str | None = None) -> npt.NDArray[np.object_]:
    """Four panels: the estimators; overlap, or the Riesz representer if it implies no propensity; balance; normality.

    Parameters
    ----------
    fit : Results
    parameter : str, optional
        Which parameter the last three panels show; by default the first.

    Returns
    -------
    ndarray of matplotlib.axes.Axes, shape (2, 2)

    Examples
    --------
    >>> import riesz
    >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
    >>> axes = riesz.plots.panels(riesz.ate("y ~ treat(a) * .", data, learner="linear"))
    >>> [ax.get_title(loc="left") for ax in axes.flat]
    ['Estimators', 'Overlap', 'Balance', 'Influence']
    """
    names = list(fit.params.index)
    name = pick(names[0] if parameter is None else parameter, names)
    fit.diagnostics()  # raises an error if the fit has no Riesz representer
    _, axes = pyplot().subplots(2, 2, figsize=(10.5, 7.5), layout="constrained")
    estimators(fit, ax=axes[0, 0])
    second = "Overlap" if _implies_propensity(fit, name) else "Riesz representer"
    (overlap if second == "Overlap" else representer)(fit, name, ax=axes[0, 1])
    balance(fit, name, most=_MOST, ax=axes[1, 0])
    qq(fit, name, ax=axes[1, 1])
    about = f": {wrap(name, 30)}" if len(names) > 1 else ""
    titles = ("Estimators", second + about, "Balance" + about, "Influence" + about)
    for ax, title in zip(axes.flat, titles, strict=True):
        title_above(ax, title, fontweight="bold")
    return np.asarray(axes)


def _implies_propensity(fit: Fitted, name: str) -> bool:
    try:
        return bool((fit.overlap().rows["parameter"] == name).any())
    except RieszError:
        return False
