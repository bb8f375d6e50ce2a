"""Fields that older files have under other names, or elsewhere, are found."""

from __future__ import annotations

from typing import Any

import pytest

from riesz.storage.conversion import convert

LAYER = {"array": "a7"}


def networks(**fields: Any) -> dict[str, Any]:
    return {"tuple": [{"type": "StoredNetwork", "fields": {"kept": 1, **fields}}]}


def test_a_layer_solved_exactly_is_kept() -> None:
    old = {"networks": networks(exact=LAYER), "blend": None, "readings": None}
    new = convert("StoredNetworks", old)
    assert new == {"networks": networks(exact=LAYER), "blend": None}
    assert convert("StoredNetwork", new["networks"]["tuple"][0]["fields"]) == {"kept": 1, "solved": LAYER}


def test_the_coefficients_of_a_reading_become_those_of_its_network() -> None:
    reading = {"type": "EmbeddingReading", "fields": {"coefficients": LAYER}}
    old = {"networks": networks(exact=None), "blend": None, "readings": {"tuple": [reading]}}
    assert convert("StoredNetworks", old)["networks"] == networks(exact=LAYER)


def test_a_reading_per_network_is_needed() -> None:
    old = {"networks": networks(exact=None), "blend": None, "readings": {"tuple": []}}
    with pytest.raises(ValueError, match="zip"):
        convert("StoredNetworks", old)


@pytest.mark.parametrize(("name", "fields"), [("StoredNetworks", {"networks": networks(), "blend": None}), ("ATE", {})])
def test_what_this_version_writes_stays(name: str, fields: dict[str, Any]) -> None:
    assert convert(name, fields) == fields
