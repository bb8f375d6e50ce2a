r"""Is the Riesz representer healthy? Its largest weight, its effective sample size, and an inner product known in advance.

The Riesz representer satisfies :math:`E[\alpha \beta] = h(\beta)` for the anchor; the sample analogue of both sides is shown.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from riesz.design import Design
from riesz.predictions import Predictions


def representer_health(predictions: Predictions, design: Design) -> pd.DataFrame:
    r"""Health of rr, one row a component.

    Returns
    -------
    pandas.DataFrame
        ``largest_rr`` largest absolute value; ``effective_n`` Kish's effective sample size of the weights
        :math:`w |\alpha|`; ``rr_anchor`` :math:`E_n[\alpha \beta]`; ``anchor_moment`` :math:`h_n(\beta)`, which it
        should equal.
    """
    rr = predictions.rr.observed
    pull = design.weights * np.abs(rr)
    return pd.DataFrame(
        {
            "largest_rr": np.abs(rr).max(axis=1),
            "effective_n": pull.sum(axis=1) ** 2 / (pull**2 / design.base.frequency[design.rows]).sum(axis=1),
            "rr_anchor": design.mean(rr * design.base.anchor.observed),
            "anchor_moment": design.mean(design.base.moment.apply(design.base.anchor)),
        }
    )
