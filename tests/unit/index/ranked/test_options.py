"""Every option that is documented for the scored indexes does something: other arrays, or other work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.unit.index.ranked.scored_cases import STRUCTURES

from earmark.flat import bits
from earmark.index.ranked.base import ScoredIndex
from earmark.workload.standard import Workload
from earmark.workload.zipf import zipf

PAGE = Path(__file__).parents[4] / "docs" / "papers" / "ranked-pubsub.md"
CHANGES: dict[str, Any] = {
    "branching": 20,
    "leaf": 0,
    "sort": "endpoint",
    "scored": False,
    "best": 3,
    "modes": "exact",
    "intersect": True,
}


def documented() -> list[tuple[str, str]]:
    """Structure and option, from the table on the page."""
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", PAGE.read_text().partition("## Options")[2], re.MULTILINE)
    return [
        (name, option) for option, of in rows for name in (STRUCTURES if of == "all" else re.findall(r"`(\w+)`", of))
    ]


def test_the_page_has_every_option() -> None:
    assert {option for _, option in documented()} == set(CHANGES)
    assert {name for name, _ in documented()} == set(STRUCTURES)


def seen(index: ScoredIndex, data: Workload) -> tuple[Any, ...]:
    """Bytes, references, and the work of a search for the best 5."""
    index.top_k_many(data.events(), 5, bits.all_set(len(data.sub_attr)))
    return index.nbytes, index.references, index.work, index.visits.tolist()


@pytest.mark.parametrize(("name", "option"), documented())
def test_an_option_makes_a_difference(name: str, option: str) -> None:
    data = zipf(intervals=200, queries=5, dimensions=1 if option == "best" else 2)  # only one attribute has cells
    plain, changed = (STRUCTURES[name].build(data.table(), **options) for options in ({}, {option: CHANGES[option]}))
    assert seen(plain, data) != seen(changed, data)
