"""Named cases: a condition, events that it matches, events that it does not; or why it is refused.

The file is data, so that every engine can be put through it. Values that JSON lacks are texts: NaN and infinity for
floats, and decimals, dates and timestamps (with offset, or in UTC) where the case declares such an attribute.
"""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import earmark

CASES = json.loads((Path(__file__).parent / "cases" / "conditions.json").read_text("utf-8"))
READERS = {"float": float, "decimal": Decimal, "date": date.fromisoformat, "timestamp": datetime.fromisoformat}


def event(case: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The event with its values read by the types that the case declares."""
    kinds = {name: kind.partition("(")[0] for name, kind in case.get("attributes", {}).items()}
    return {
        name: READERS[kinds[name]](value) if isinstance(value, str) and kinds.get(name) in READERS else value
        for name, value in given.items()
    }


@pytest.mark.parametrize("case", CASES["accepted"], ids=lambda case: case["name"])
def test_accepted(case: dict[str, Any]) -> None:
    matcher = earmark.Matcher(attributes=case.get("attributes"))
    matcher.add("it", case["condition"])
    for given in case["match"]:
        assert matcher.match(event(case, given)) == ["it"], given
    for given in case["no_match"]:
        assert matcher.match(event(case, given)) == [], given
    assert matcher.never_matching() == (["it"] if case.get("never") else [])
    if "clauses" in case:
        assert matcher.stats()["clauses"] == case["clauses"]


@pytest.mark.parametrize("case", CASES["refused"], ids=lambda case: case["name"])
def test_refused(case: dict[str, Any]) -> None:
    matcher = earmark.Matcher(attributes=case.get("attributes"))
    with pytest.raises(earmark.SubscriptionError) as caught:
        matcher.add("it", case["condition"])
    message = str(caught.value)
    assert message.startswith("subscription 'it': ")
    assert case["piece"] in message
    assert case["reason"] in message
    assert len(matcher) == 0
