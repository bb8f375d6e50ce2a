"""Cattaneo's data on smoking in pregnancy and birth weight, as statsmodels ships them with its tests."""

from __future__ import annotations

from importlib.resources import as_file, files

import pandas as pd

from riesz.errors import DataError
from riesz.syntax.check_arguments import checked

_PACKAGE, _FILE = "statsmodels.treatment.tests.results", "cataneo2.csv"
_CIGARETTES = ["0 daily", "1-5 daily", "6-10 daily", "11+ daily"]
_NAMES = {"mbsmoke_": "mbsmoke", "mmarried_": "mmarried", "fbaby_": "fbaby", "prenatal1_": "prenatal1"}


@checked("riesz.datasets.load_birthweight()")
def load_birthweight() -> pd.DataFrame:
    """Smoking in pregnancy and birth weight: 4,642 singleton births in Pennsylvania, 1989 to 1991.

    The extract of Cattaneo (2010) that Stata's manual uses for ``teffects`` (``cattaneo2``), under its names, so that results
    can be compared with Stata's.

    Returns
    -------
    pandas.DataFrame
        ``bweight``
            The outcome: birth weight in grams; ``lbweight`` is 1 below 2,500 grams.
        ``mbsmoke``, ``msmoke``
            Two treatments: 1 if the mother smoked during pregnancy, else 0; and an ordered category of cigarettes per day: 0, 1-5,
            6-10, 11+.
        ``mmarried, mage, medu, mhisp, mrace, foreign``
            The mother: married, age, years of education, Hispanic, white, born abroad.
        ``fage, fedu, fhisp, frace``
            The father: age, years of education, Hispanic, white; 0 in ``fage`` and ``fedu`` if he is unknown.
        ``alcohol, deadkids, nprenatal, prenatal, prenatal1, monthslb, order, fbaby, birthmonth``
            The pregnancy: alcohol, previous births where the newborn died, prenatal visits, trimester of the first visit (0 for
            none), whether that was the first trimester, months since the last birth, order of the birth, first baby, month.

    References
    ----------
    Cattaneo (2010), "Efficient semiparametric estimation of multi-valued treatment effects under ignorability".

    Examples
    --------
    >>> from riesz import datasets
    >>> births = datasets.load_birthweight()
    >>> births.groupby("mbsmoke")["bweight"].mean().round(1).to_dict()
    {0: 3412.9, 1: 3137.7}
    """
    try:
        with as_file(files(_PACKAGE) / _FILE) as path:
            source = pd.read_csv(path)
    except (ModuleNotFoundError, FileNotFoundError):
        raise DataError(
            "The birth-weight data come with the tests of statsmodels, which this installation does not have. Install statsmodels "
            "0.14 or later from PyPI, whose wheels include them, or use another data set, such as riesz.datasets.load_rand()."
        ) from None
    births = source.drop(columns=[*_NAMES.values(), "mage2"]).rename(columns=_NAMES)
    births["msmoke"] = pd.Categorical(births["msmoke"].str.strip(), categories=_CIGARETTES, ordered=True)
    first = ["bweight", "mbsmoke", "msmoke", "mmarried", "mage", "medu"]
    return births[[*first, *(name for name in births.columns if name not in first)]]
