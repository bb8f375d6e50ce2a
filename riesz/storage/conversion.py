"""Content of older files, turned into what today's types expect.

In: the name of a stored type and its fields as JSON, as some version wrote them. Out: the fields as this version writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Fields = dict[str, Any]


def convert(name: str, fields: Fields) -> Fields:
    """The fields of a stored type as this version writes them.

    Examples
    --------
    >>> from riesz.storage.conversion import convert
    >>> convert("MADNet", {"width": 64, "stack": None})
    {'width': 64, 'side_by_side': None}
    """
    return _CONVERSIONS[name](fields) if name in _CONVERSIONS else fields


def _network_settings(fields: Fields) -> Fields:
    """Format 2 until version 0.1.0: the setting ``side_by_side`` was called ``stack``."""
    return {"side_by_side" if key == "stack" else key: value for key, value in fields.items()}


def _network(fields: Fields) -> Fields:
    """Format 2 until version 0.1.0: ``solved`` was called ``exact``."""
    return {"solved" if key == "exact" else key: value for key, value in fields.items()}


def _networks(fields: Fields) -> Fields:
    """Format 2 until version 0.1.0: each network had a reading, which held a solved layer if there was one.

    Its other fields repeat settings of the learner.
    """
    if "readings" not in fields:
        return fields
    networks, readings = fields["networks"], fields["readings"]
    if readings is not None:
        solved = [reading["fields"].get("coefficients") for reading in readings["tuple"]]
        pairs = zip(networks["tuple"], solved, strict=True)
        networks = {"tuple": [{**net, "fields": {**net["fields"], "exact": layer}} for net, layer in pairs]}
    return {"networks": networks, "blend": fields["blend"]}


_CONVERSIONS: dict[str, Callable[[Fields], Fields]] = {
    "MADNet": _network_settings,
    "RieszNet": _network_settings,
    "DragonNet": _network_settings,
    "TARNet": _network_settings,
    "NeuralEmbedding": _network_settings,
    "StoredNetwork": _network,
    "StoredNetworks": _networks,
}
