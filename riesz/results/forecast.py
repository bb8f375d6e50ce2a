"""What a fit says about rows that it has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from riesz.design.design import Design
from riesz.design.new_rows import extend
from riesz.predictions import Predictions, average, cap, times
from riesz.results.core import Core


class Forecast(Core):
    """Predictions on new rows."""

    def predict(self, newdata: Any) -> pd.DataFrame:
        """Mu, the moment of mu, the Riesz representer and the pseudo-outcome on new rows, averaged over folds and repeats.

        Splines, factors and standardised columns keep the knots, levels and centres of the fit. Levels that the fit never saw are
        an error; rows with missing values get missing predictions.

        Parameters
        ----------
        newdata : DataFrame
            pandas, polars or pyarrow, with the columns that the formula needs. The outcome may be absent; then there is no
            pseudo-outcome.

        Returns
        -------
        pandas.DataFrame
            ``mu``, and for each parameter ``moment_ATE`` (m(mu): for the ATE the predicted effect), ``rr_ATE`` and
            ``pseudo_ATE``, which is m(mu) + rr (y - mu); the last two where the learner learns rr. On the rows of the fit these
            differ from ``fit.predictions``, which come from folds that have not seen the row.

        Examples
        --------
        >>> import riesz
        >>> data = riesz.datasets.get("binary").draw(500, seed=1).data
        >>> fit = riesz.ate("y ~ treat(a) * .", data, learner="linear")
        >>> fit.predict(data.head(3)).columns.tolist()
        ['mu', 'moment_ATE', 'rr_ATE', 'pseudo_ATE']
        """
        rows = extend(self.model.recipe, self.model.blueprint, newdata)
        made = average([self._one_repeat(repeat, rows.design) for repeat in range(len(self._crossfit.folds))])
        mu, rr = made.mu.observed, made.rr.observed
        moment = rows.design.apply(made.mu)
        columns = {"mu": mu}
        for c, name in enumerate(self._names):
            columns[f"moment_{name}"] = moment[c]
            if self.model.learner.learns_rr:
                columns |= {f"rr_{name}": rr[c], f"pseudo_{name}": moment[c] + rr[c] * (rows.y - mu)}
        table = pd.DataFrame(columns, index=np.flatnonzero(rows.complete))
        return table.reindex(np.arange(len(rows.complete))).set_axis(rows.index, axis=0)

    def _one_repeat(self, repeat: int, design: Design) -> Predictions:
        counts = [int(labels.max()) + 1 for labels in self._crossfit.folds]
        first = sum(counts[:repeat])
        fits = self._crossfit.fits[first : first + counts[repeat]]
        mean = average([fit.predict(design) for fit in fits])
        return cap(times(mean, self._crossfit.scales[repeat]), self._crossfit.caps[repeat])
