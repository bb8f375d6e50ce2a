"""The RAND health insurance experiment, as statsmodels ships it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from riesz.syntax.check_arguments import checked


@checked("riesz.datasets.load_rand()")
def load_rand() -> pd.DataFrame:
    """Doctor visits and cost sharing in the RAND health insurance experiment, 1974 to 1982.

    Families were assigned to insurance plans that differ in the share of the bill that the family pays. Each of the 20,190 rows is
    one person in one year; the source identifies neither the person nor the family.

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
    >>> rand.groupby("coinsurance")["visits"].mean().round(2).to_dict()
    {0: 3.12, 25: 2.79, 50: 2.56, 95: 2.11, 100: 2.68}
    """
    from statsmodels.datasets import randhie  # not at the top: the import takes a second

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
