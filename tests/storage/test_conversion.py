"""Fields that older files hold under other names, or in other places, are converted."""

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
    assert new == ("StoredNetworks", {"networks": networks(exact=LAYER)})
    assert convert("StoredNetwork", old["networks"]["tuple"][0]["fields"]) == (
        "StoredNetwork",
        {"kept": 1, "solved": LAYER},
    )


def test_the_coefficients_of_a_reading_become_those_of_its_network() -> None:
    reading = {"type": "EmbeddingReading", "fields": {"coefficients": LAYER}}
    old = {"networks": networks(exact=None), "blend": None, "readings": {"tuple": [reading]}}
    assert convert("StoredNetworks", old)[1]["networks"] == networks(exact=LAYER)


def test_a_reading_per_network_is_needed() -> None:
    old = {"networks": networks(exact=None), "blend": None, "readings": {"tuple": []}}
    with pytest.raises(ValueError, match="zip"):
        convert("StoredNetworks", old)


@pytest.mark.parametrize(
    ("name", "fields"), [("StoredNetworks", {"networks": networks()}), ("ATE", {}), ("MADNet", {"inputs": "paper"})]
)
def test_what_this_version_writes_stays(name: str, fields: dict[str, Any]) -> None:
    assert convert(name, fields) == (name, fields)


def test_a_blend_with_splines_leaves_its_weights() -> None:
    blend = {"type": "Blend", "fields": {"closed": {}, "mu": LAYER, "arms": None, "rr": LAYER, "scales": LAYER}}
    name, fields = convert("StoredNetworks", {"networks": networks(), "blend": blend})
    assert (name, fields) == ("BlendedNetworks", {"networks": networks(), "mu": LAYER, "by_arm": False, "rr": LAYER})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"companion": "splines"}, "MADNet with splines"),
        (
            {"companion": "splines", "constraint": "exact", "architecture": "fully_connected"},
            "MADNet with splines (fully connected, exact)",
        ),
        ({"companion": None, "inputs": "splines"}, "MADNet on splines"),
    ],
)
def test_settings_that_are_gone_leave_a_description(fields: dict[str, Any], words: str) -> None:
    name, remembered = convert("MADNet", fields)
    assert (name, remembered["words"]) == ("RememberedLearner", words)


def test_settings_of_networks_alone_stay() -> None:
    assert convert("MADNet", {"companion": None, "width": 8}) == ("MADNet", {"width": 8})
