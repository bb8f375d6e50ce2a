"""Example data: simulations with known truth, and two real data sets.

``get(name)`` returns a :class:`Simulation`: samples to draw, the true mu, the population value of any estimand and the true Riesz
representer. ``random_world(seed, kind)`` draws a data-generating process from a seed, with its truth and an oracle.
``load_birthweight()`` reads Cattaneo's birth-weight data and ``load_rand()`` the RAND health insurance experiment. Nothing is
downloaded.

Examples
--------
>>> import riesz
>>> simulation = riesz.datasets.get("binary")
>>> simulation.truth(riesz.ATE()).round(6)
array([1.])
>>> simulation.draw(n=3, seed=1).data[["y", "a", "x1", "x2"]].round(1)
     y  a   x1   x2
0 -0.1  1  0.0  1.8
1  0.1  0  1.8 -0.8
2 -1.7  0 -1.4 -0.3
"""

from riesz.datasets.arms import ARMS
from riesz.datasets.binary import BINARY, WEAK_OVERLAP
from riesz.datasets.binary_outcome import BINARY_OUTCOME
from riesz.datasets.birthweight import load_birthweight
from riesz.datasets.clustered import CLUSTERED
from riesz.datasets.continuous import CONTINUOUS
from riesz.datasets.gasoline import GASOLINE
from riesz.datasets.positive_outcomes import COSTS, COUNTS
from riesz.datasets.quantiles import SKEWED, SKEWED_DOSE
from riesz.datasets.rand import load_rand
from riesz.datasets.simulation import Draw, Simulation
from riesz.datasets.worlds import World, random_world
from riesz.errors import DataError, listing, nearest
from riesz.syntax.check_arguments import checked

_ALL = (BINARY, WEAK_OVERLAP, ARMS, BINARY_OUTCOME, CONTINUOUS, GASOLINE, CLUSTERED, COUNTS, COSTS, SKEWED, SKEWED_DOSE)

#: Simulations by name; recovery tests loop over them.
SIMULATIONS: dict[str, Simulation] = {simulation.name: simulation for simulation in _ALL}


@checked("riesz.datasets.get()")
def get(name: str) -> Simulation:
    """A simulation by its name.

    Parameters
    ----------
    name : str
        One of ``datasets.SIMULATIONS``.

    Returns
    -------
    Simulation

    Examples
    --------
    >>> from riesz import datasets
    >>> datasets.get("gasoline").draw(n=2, seed=1).data.iloc[:, :5].round(2)
       log_quantity  log_price  log_income  household_size     region
    0          5.16       0.36       10.52               1  northeast
    1          6.18       0.52       11.48               5  northeast
    """
    if name not in SIMULATIONS:
        raise DataError(
            f"There is no simulation {name!r}.{nearest(str(name), SIMULATIONS)} The simulations are {listing(SIMULATIONS)}."
        )
    return SIMULATIONS[name]


__all__ = ["SIMULATIONS", "Draw", "Simulation", "World", "get", "load_birthweight", "load_rand", "random_world"]
