"""Which known name a misspelt one meant."""

from __future__ import annotations

import pytest

from earmark.language.words import did_you_mean, nearest_name


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("ctiy", "city"), ("City", "city"), ("CTIY", "city"), ("user.aeg", "user.Age"), ("zzz", None), ("", None)],
)
def test_nearest(name: str, nearest: str | None) -> None:
    assert nearest_name(name, ["age", "city", "country", "user.Age"]) == nearest


def test_nothing_to_compare_with() -> None:
    assert nearest_name("a", []) is None
    assert did_you_mean("a", []) == ""


def test_millions_of_names_end_soon() -> None:
    assert nearest_name("name 1_0", (f"name {i}" for i in range(3_000_000))) == "name 10"
