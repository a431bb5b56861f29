"""What the demo compares earmark with gives the answers of earmark."""

from __future__ import annotations

from typing import Any

import pytest

from earmark import Matcher
from earmark.cli import without
from earmark.workload.ads import Campaigns, visitors


@pytest.mark.parametrize("least", [2, 5])
@pytest.mark.parametrize("contender", [without.loop, without.sqlite])
def test_the_answers_are_the_same(contender: Any, least: int) -> None:
    ads = list(Campaigns(3_000, 4, least))
    matcher = Matcher("scan")
    matcher.add_many(ads)
    ask = contender([without.traits(ad["condition"]) for ad in ads])
    crowd: list[dict[str, Any]] = [*visitors(120, 4), {}, {"age": 30, "city": "Oslo", "interest": "books"}]
    answers = [[f"ad-{number}" for number in ask(visitor)] for visitor in crowd]
    assert answers == [matcher.match(visitor) for visitor in crowd]
    assert sum(map(len, answers)) > 20


def test_what_a_condition_asks() -> None:
    text = "age BETWEEN 40 AND 50 AND city IN ('Lisbon', 'Paris') AND interest = 'running' AND credit_score > 605"
    assert without.traits(text + " AND income BETWEEN 68e3 AND 100e3 AND visits >= 7 AND NOT blocked") == [
        ("age", 40, 50, ()),
        ("city", 0, 0, ("Lisbon", "Paris")),
        ("interest", 0, 0, ("running",)),
        ("credit_score", 606, without.ENDLESS, ()),
        ("income", 68e3, 100e3, ()),
        ("visits", 7, without.ENDLESS, ()),
        ("blocked", False, False, ()),
    ]
