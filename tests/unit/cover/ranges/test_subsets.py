"""Section 8 of MICS: attributes in subsets, one table of ranges for each."""

from __future__ import annotations

import pytest

from earmark.cover import Projection, SubsetProjections
from earmark.cover.ranges.projection import are_wanted
from earmark.errors import EarmarkError
from earmark.workload.mics import mics, table_2

SUBSETS = [(0, 1, 2), (3, 4), (5, 6)]


@pytest.mark.parametrize("distribution", ["uniform", "zipf"])
@pytest.mark.parametrize("bits", [4, 6])
def test_between_one_subset_and_the_truth(distribution: str, bits: int) -> None:
    data = table_2(distribution, 1_000, 1_000)
    table, events = data.table(), data.events()
    wanted = are_wanted(table, events)
    sent = SubsetProjections.build(table, SUBSETS, bits=bits).sends(events)
    alone = Projection.build(table, attributes=SUBSETS[0], bits=bits).sends(events)
    assert not (wanted & ~sent).any(), "an event that is wanted was not sent"
    assert not (sent & ~alone).any()


def test_fewer_are_sent_in_vain() -> None:
    data = mics("uniform", 200, 2_000, attributes=4, sizes=40)
    alone = Projection.build(data.table(), attributes=(0, 1), bits=8).measured(data.table(), data.events())
    made = SubsetProjections.build(data.table(), [(0, 1), (2, 3)], bits=8)
    together = made.measured(data.table(), data.events())
    assert together.wanted == alone.wanted < together.sent < alone.sent
    assert len(made) == sum(map(len, made.parts)) and "2 subsets" in repr(made)


def test_learned_cells() -> None:
    data = mics("zipf", 500, 4_000, attributes=4, grain=64)
    table, events = data.table(), data.events()
    equal = SubsetProjections.build(table, [(0, 1), (2, 3)], bits=5).measured(table, events)
    learned = SubsetProjections.build(table, [(0, 1), (2, 3)], bits=5, events=events).measured(table, events)
    assert learned.wanted == equal.wanted <= learned.sent < equal.sent


@pytest.mark.parametrize("subsets", [[(0, 1), (1, 2)], [(0,), ()]])
def test_nonsense(subsets: list[tuple[int, ...]]) -> None:
    with pytest.raises(EarmarkError, match="disjoint subsets"):
        SubsetProjections.build(mics("zipf", 10, 1).table(), subsets)


def test_no_subset() -> None:
    with pytest.raises(EarmarkError, match="at least one subset"):
        SubsetProjections.build(mics("zipf", 10, 1).table(), []).sends(mics("zipf", 10, 1).events())
