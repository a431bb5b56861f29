"""Gaps that a budget closes: paid for by the run before, whatever the order of changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earmark.cover.ranges.budget import BudgetTable, Weights, weight_of
from earmark.cover.ranges.table import Ranges, RangeSet, RangeTable, as_ranges, balance

LAST = 1_023
UNIFORM = Weights.of(np.empty(0, np.int64), LAST)
SKEWED = Weights.of((np.random.default_rng(1).beta(0.6, 6, 4_000) * (LAST + 1)).astype(np.int64), LAST)


def test_weights_are_shares() -> None:
    for weights in (UNIFORM, SKEWED):
        assert weight_of(weights, 0, LAST) == pytest.approx(1)
        parts = [weight_of(weights, first, first + 15) for first in range(0, LAST, 16)]
        assert sum(parts) == pytest.approx(1) and min(parts) > 0
    assert weight_of(UNIFORM, 256, 511) == pytest.approx(0.25)
    assert weight_of(SKEWED, 0, 127) > 0.5
    equal = Weights.of(np.full(1_000, 7), LAST)
    assert weight_of(equal, 7, 7) > 0.95


def test_the_cheapest_gaps_of_a_section_are_closed() -> None:
    """With few runs there is one section."""
    weights = Weights.of(np.empty(0, np.int64), (1 << 12) - 1)
    assert weights.section.tolist() == list(range(0, 1 << 12, 4))
    table = BudgetTable(0.5, weights)
    told, withdrawn = table.change(as_ranges([(0, 1), (3, 4), (7, 8), (50, 50)]), as_ranges([]))
    assert told.pairs() == [(0, 8), (50, 50)] and not withdrawn  # 7 pay for 1 and 2; the gap to 50 is too dear
    told, withdrawn = table.change(as_ranges([]), as_ranges([(3, 3)]))
    assert told.pairs() == [] and withdrawn.pairs() == [(5, 6)]  # 6 pay for the first of two that cost 2
    told, withdrawn = table.change(as_ranges([(2, 3)]), as_ranges([(50, 50)]))
    assert told.pairs() == [(5, 6)] and withdrawn.pairs() == [(50, 50)]
    table.check()
    assert table.change(as_ranges([]), as_ranges([(0, 4), (7, 8)]))[1].pairs() == [(0, 8)]
    assert len(table) == 0
    table.check()


ranges = st.lists(st.tuples(st.integers(0, LAST), st.integers(0, 90)), min_size=1, max_size=4).map(
    lambda pairs: as_ranges([(first, min(first + length, LAST)) for first, length in pairs])
)


@given(st.lists(st.tuples(ranges, st.integers(0, 9)), max_size=14), st.sampled_from((0.0, 0.05, 0.5)), st.booleans())
@settings(max_examples=60)
def test_told_depends_on_what_is_asked_alone(steps: list[tuple[Ranges, int]], budget: float, skewed: bool) -> None:
    weights = SKEWED if skewed else UNIFORM
    table, known, live = BudgetTable(budget, weights), RangeSet(), list[Ranges]()
    counted = RangeTable()
    for asked, choice in steps:
        gone = [live.pop(choice % len(live))] if live and choice < 6 else []
        live += [asked]
        new, old = counted.subscribe(asked), counted.unsubscribe(gone[0]) if gone else as_ranges([])
        told, withdrawn = table.change(*balance(new, old))
        assert known.add(told).pairs() == told.pairs()
        assert known.discard(withdrawn).pairs() == withdrawn.pairs()
        table.check()
        assert known.ranges().pairs() == table.ranges().pairs()
        union = RangeSet()
        for one in live:
            union.add(one)
        assert table.asked().pairs() == union.ranges().pairs()
        wanted, sent = weights.weigh(union.ranges()), weights.weigh(table.ranges())
        assert wanted <= sent + 1e-9 and sent <= wanted * (1 + budget) + 1e-9
    again, counted = BudgetTable(budget, weights), RangeTable()
    for one in reversed(live):
        again.change(counted.subscribe(one), as_ranges([]))
    assert again.ranges().pairs() == table.ranges().pairs()


@pytest.mark.parametrize("skewed", [False, True])
def test_held_out_events_keep_the_budget(skewed: bool) -> None:
    """Thousands of small ranges, where nearly no gap has an event of the sample."""
    rng, last, budget = np.random.default_rng(3), (1 << 20) - 1, 0.1
    draw = (lambda n: rng.beta(0.5, 4, n)) if skewed else (lambda n: rng.random(n))
    sample, held_out = ((draw(n) * last).astype(np.int64) for n in (20_000, 200_000))
    first = (draw(5_000) * (last - 40)).astype(np.int64)
    table = BudgetTable(budget, Weights.of(sample, last))
    table.change(as_ranges(Ranges(first, first + rng.integers(0, 40, 5_000))), as_ranges([]))
    table.check()
    sent, wanted = (RangeSet(one).holds(held_out).sum() for one in (table.ranges(), table.asked()))
    assert len(table) < len(table.asked().first)
    assert 0 < sent - wanted <= budget * wanted * 1.05
