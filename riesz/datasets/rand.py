"""The RAND health insurance experiment, as statsmodels ships it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from riesz.syntax.calls import checked


@checked("riesz.datasets.load_rand()")
def load_rand() -> pd.DataFrame:
    """Visits to a doctor and cost sharing in the RAND health insurance experiment, 1974 to 1982.

    Families were assigned to insurance plans that differ in the share of the bill they pay. Each of the 20,190 rows is one
    person in one year; the source has no identifier of the person or the family.

    Returns
    -------
    pandas.DataFrame
        ``visits``
            Outpatient visits to a medical doctor in the year (source: ``mdvis``).
        ``coinsurance``
            Per cent of the bill that the family pays: 0, 25, 50, 95 or 100 (from ``lncoins``).
        ``log_coinsurance``
            log(coinsurance + 1) (``lncoins``).
        ``individual_deductible``
            1 in a plan with an individual deductible, else 0 (``idp``).
        ``log_incentive``
            Logarithm of the annual participation incentive payment, 0 for none (``lpi``).
        ``log_expenditure_limit``
            Logarithm of the maximum expenditure divided by the coinsurance share; 0 in a plan with an individual deductible
            (``fmde``).
        ``physical_limitation``
            1 with a physical limitation, else 0; imputed shares in between (``physlm``).
        ``chronic_diseases``
            An index of chronic diseases, 0 to 58.6 (``disea``).
        ``health``
            Self-rated health, an ordered category: excellent, good, fair, poor (``hlthg``, ``hlthf``, ``hlthp``).

    References
    ----------
    Cameron and Trivedi (2005), *Microeconometrics: Methods and Applications*, chapter 20.

    Examples
    --------
    >>> from riesz import datasets
    >>> rand = datasets.load_rand()
    >>> rand.shape
    (20190, 9)
    >>> sorted(rand["coinsurance"].unique().tolist())
    [0, 25, 50, 95, 100]
    """
    from statsmodels.datasets import randhie  # here and not above: the import takes a second, few callers want it

    source = randhie.load_pandas().data
    health = np.select([source["hlthg"] == 1, source["hlthf"] == 1, source["hlthp"] == 1], [1, 2, 3], default=0)
    return pd.DataFrame(
        {
            "visits": source["mdvis"],
            "coinsurance": np.expm1(source["lncoins"]).round().astype(int),
            "log_coinsurance": source["lncoins"],
            "individual_deductible": source["idp"],
            "log_incentive": source["lpi"],
            "log_expenditure_limit": source["fmde"],
            "physical_limitation": source["physlm"],
            "chronic_diseases": source["disea"],
            "health": pd.Categorical.from_codes(health, ["excellent", "good", "fair", "poor"], ordered=True),
        }
    )
