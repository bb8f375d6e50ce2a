"""Converts the content of older files into the fields of the current types.

In: the name of a stored type and its fields as JSON, as an earlier version wrote them. Out: the name and the fields as this version
writes them. What this version no longer has becomes a placeholder: description and numbers, without the ability to predict
(``results/placeholders.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Fields = dict[str, Any]
Content = tuple[str, Fields]


def convert(name: str, fields: Fields) -> Content:
    """A stored type and its fields as this version writes them.

    Examples
    --------
    >>> from riesz.storage.conversion import convert
    >>> convert("MADNet", {"width": 64, "stack": None})
    ('MADNet', {'width': 64, 'side_by_side': None})
    """
    return _CONVERSIONS[name](name, fields) if name in _CONVERSIONS else (name, fields)


def complete(name: str, values: Fields, make: Callable[[str, Fields], Any]) -> Fields:
    """Add the fields that an older file lacks to those that have been read.

    Parameters
    ----------
    name : str
        A stored type of this version.
    values : dict
    make : callable
        Creates a stored type from its name and its fields.
    """
    if name not in _COMPLETIONS:
        return values
    field, add = _COMPLETIONS[name]
    return values if field in values else add(values, make)


def _linked_weights(values: Fields, make: Callable[[str, Fields], Any]) -> Fields:
    """Format 2 and before: weights of every component and every reading, most of them zero, shape (K, R, n)."""
    component, reading = np.nonzero(values["weights"].any(axis=2))
    links = make("Links", {"component": component, "reading": reading})
    return {**values, "links": links, "weights": values["weights"][component, reading]}


def _linked_values(values: Fields, make: Callable[[str, Fields], Any]) -> Fields:
    """Format 2 and before: the function of every component at every reading, shape (K, R, n)."""
    components, readings, n = values["values"].shape
    component, reading = np.divmod(np.arange(components * readings), readings)
    links = make("Links", {"component": component, "reading": reading})
    parts = {part: values[part].reshape(-1, n) for part in ("values", "slopes")}
    return {**values, **parts, "links": links}


def _compact_tables(values: Fields, make: Callable[[str, Fields], Any]) -> Fields:
    """Format 2 and before: tables were stored in full."""
    compact = {name: value for name, value in values.items() if name not in ("values", "treatment")}
    for name in ("values", "treatment"):
        table = values[name]
        width = table.shape[1]
        fields = {"constants": np.zeros(width), "places": np.arange(width), "varying": table}
        compact[f"kept_{name}"] = make("Compact", fields)
    return compact


def _named_family(values: Fields, make: Callable[[str, Fields], Any]) -> Fields:
    """Version 0.1.0: a fit held whether mu is an expit of its index, since there were no other families."""
    others = {name: value for name, value in values.items() if name != "logistic"}
    return {**others, "family": "binomial" if values["logistic"] else "gaussian"}


#: By stored type: a field that older files lack, and the function that adds it.
_COMPLETIONS: dict[str, tuple[str, Callable[[Fields, Callable[[str, Fields], Any]], Fields]]] = {
    "Moment": ("links", _linked_weights),
    "Linked": ("links", _linked_values),
    "Points": ("kept_values", _compact_tables),
    "LinearFit": ("family", _named_family),
    "LassoFit": ("family", _named_family),
    "BalancingFit": ("family", _named_family),
    "SplinesFit": ("family", _named_family),
    "SectionsFit": ("family", _named_family),
    "StoredBoosting": ("family", _named_family),
    "StoredOnSplines": ("family", _named_family),
}


def _each_component(field: str) -> Callable[[str, Fields], Content]:
    """Format 2 and before: a field with one function per component had the type of a function that components share."""

    def change(name: str, fields: Fields) -> Content:
        part = fields[field]
        return name, {**fields, field: {**part, "type": "Linked"} if part["type"] == "Evaluation" else part}

    return change


def _network_settings(name: str, fields: Fields) -> Content:
    """Some files of format 2: the setting ``side_by_side`` was called ``stack``; inputs may be splines."""
    if fields.get("inputs") == "splines":
        return _remembered(f"{name} on splines")
    return name, {"side_by_side" if key == "stack" else key: value for key, value in fields.items()}


def _madnet_settings(name: str, fields: Fields) -> Content:
    """Some files of format 2: the networks may be blended with a closed form on splines, their companion."""
    settings = {key: value for key, value in fields.items() if key != "companion"}
    if fields.get("companion") is None:
        return _network_settings(name, settings)
    usual = {"architecture": "multihead", "constraint": "absolute"}
    unusual = [
        str(fields.get(key, value)).replace("_", " ") for key, value in usual.items() if fields.get(key, value) != value
    ]
    return _remembered("MADNet with splines" + (f" ({', '.join(unusual)})" if unusual else ""))


def _remembered(words: str) -> Content:
    return "RememberedLearner", {"words": words, "notes": {"tuple": []}, "learns_rr": True}


def _network(name: str, fields: Fields) -> Content:
    """Some files of format 2: ``solved`` was called ``exact``."""
    return name, {"solved" if key == "exact" else key: value for key, value in fields.items()}


def _networks(name: str, fields: Fields) -> Content:
    """Some files of format 2: networks may have a blend, and readings, which hold a solved layer if there is one.

    The other fields of readings repeat settings of the learner.
    """
    networks, readings, blend = fields["networks"], fields.get("readings"), fields.get("blend")
    if readings is not None:
        solved = [reading["fields"].get("coefficients") for reading in readings["tuple"]]
        pairs = zip(networks["tuple"], solved, strict=True)
        networks = {"tuple": [{**net, "fields": {**net["fields"], "exact": layer}} for net, layer in pairs]}
    if blend is None:
        return name, {"networks": networks}
    weights = blend["fields"]
    return "BlendedNetworks", {
        "networks": networks,
        "mu": weights["mu"],
        "by_arm": weights["arms"] is not None,
        "rr": weights["rr"],
    }


def _kernel(name: str, fields: Fields) -> Content:
    """Version 0.1.0: the kernel of a fitted ``KernelEmbedding`` had the name that a learner now has."""
    return ("EmbeddingKernel" if "covariates" in fields else name), fields


_CONVERSIONS: dict[str, Callable[[str, Fields], Content]] = {
    "MADNet": _madnet_settings,
    "RieszNet": _network_settings,
    "DragonNet": _network_settings,
    "TARNet": _network_settings,
    "NeuralEmbedding": _network_settings,
    "Kernel": _kernel,
    "StoredNetwork": _network,
    "StoredNetworks": _networks,
    "Base": _each_component("anchor"),
    "Predictions": _each_component("rr"),
}
