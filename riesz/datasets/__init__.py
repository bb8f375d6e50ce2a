"""Data to try things on: simulations that carry their truth, and two real data sets.

``get(name)`` gives a :class:`Simulation`: samples to draw, the true mu, the population value of any estimand and the
true Riesz representer. ``random_world(seed, kind)`` draws a data-generating process from a seed, with its truth and an oracle.
``load_birthweight()`` reads Cattaneo's birth-weight data and ``load_rand()``
the RAND health insurance experiment. Nothing here is fitted or downloaded.

Examples
--------
>>> import riesz
>>> simulation = riesz.datasets.get("binary")
>>> simulation.draw(2000, seed=1).data.shape[0], simulation.truth(riesz.ATE()).shape
(2000, (1,))
"""

from riesz.datasets.arms import ARMS
from riesz.datasets.binary import BINARY, WEAK_OVERLAP
from riesz.datasets.binary_outcome import BINARY_OUTCOME
from riesz.datasets.birthweight import load_birthweight
from riesz.datasets.clustered import CLUSTERED
from riesz.datasets.continuous import CONTINUOUS
from riesz.datasets.gasoline import GASOLINE
from riesz.datasets.rand import load_rand
from riesz.datasets.simulation import Draw, Simulation
from riesz.datasets.worlds import World, random_world
from riesz.errors import DataError, listing, nearest
from riesz.syntax.calls import checked

#: Name to simulation; recovery tests loop over it.
SIMULATIONS: dict[str, Simulation] = {
    simulation.name: simulation
    for simulation in (BINARY, WEAK_OVERLAP, ARMS, BINARY_OUTCOME, CONTINUOUS, GASOLINE, CLUSTERED)
}


@checked("riesz.datasets.get()")
def get(name: str) -> Simulation:
    """The simulation of a name.

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
    >>> datasets.get("gasoline").draw(n=2, seed=1).data.columns.tolist()
    ['log_quantity', 'log_price', 'log_income', 'household_size', 'region', 'urban', 'age']
    """
    if name not in SIMULATIONS:
        raise DataError(
            f"There is no simulation {name!r}.{nearest(str(name), SIMULATIONS)} There are {listing(SIMULATIONS)}."
        )
    return SIMULATIONS[name]


__all__ = ["SIMULATIONS", "Draw", "Simulation", "World", "get", "load_birthweight", "load_rand", "random_world"]
