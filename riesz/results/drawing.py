"""Pictures of a fit."""

from __future__ import annotations

from functools import partial
from typing import Any

from riesz.errors import RieszError, nearest
from riesz.plots import PLOTS
from riesz.results.confounding import Confounding
from riesz.results.heterogeneity import Heterogeneity
from riesz.results.tables import Tables
from riesz.syntax.calls import check_call


class Drawing(Tables, Confounding, Heterogeneity):
    """Plots of a fit."""

    def plot(self, kind: str = "panels", *arguments: Any, **options: Any) -> Any:
        """Draw the fit with matplotlib: four panels, or one plot by name.

        Parameters
        ----------
        kind : str
            ``"panels"``, ``"estimators"``, ``"forest"``, ``"groups"``, ``"representer"``, ``"overlap"``, ``"balance"``,
            ``"influence"``, ``"qq"``, ``"sensitivity"`` or ``"history"``: a function of :mod:`riesz.plots`.
        *arguments, **options
            What that function takes besides the fit: ``fit.plot("groups", "region")``, ``fit.plot("balance", most=10, ax=ax)``.

        Returns
        -------
        matplotlib.axes.Axes
            An array of four for ``"panels"``.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * .", data, learner="linear")
        >>> fit.plot().shape
        (2, 2)
        >>> fit.plot("overlap").get_ylabel()
        'Share of the arm'
        """
        if not isinstance(kind, str) or kind not in PLOTS:
            raise RieszError(
                f"plot({kind!r}): there is no such plot.{nearest(str(kind), PLOTS)} Expected one of {', '.join(map(repr, PLOTS))}."
            )
        check_call(f"fit.plot({kind!r})", partial(PLOTS[kind], self), arguments, options)
        return PLOTS[kind](self, *arguments, **options)
