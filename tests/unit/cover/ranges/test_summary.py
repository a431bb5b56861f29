"""Ranges of cells as a summary: never a miss, gaps closed within the budget, a space that others can use."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.book import as_event, rows
from tests.unit.cover.merging.test_merging import book_of

from earmark import Matcher
from earmark.cover.ranges.summary import SPACE_KEY, summarize
from earmark.errors import EarmarkError
from earmark.events.frames import encode_many


@given(seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=max(1, settings.default.max_examples // 6))
def test_never_a_miss(seed: int) -> None:
    """Points and intervals of every type; whatever a subscription takes lies in a range, gaps closed or not."""
    rng = Random(seed)
    matcher, book = book_of(rng, 12)
    sample = [as_event(row) for row in rows(rng, book, 60)]
    matcher.add(99, "i0 > 3")  # so that there is an attribute to have cells
    made = summarize(matcher, sample, rng.choice((0.0, 1.0, 1e9)), axes=rng.choice((1, 2, 3)), cell_bits=4)
    events = encode_many(matcher._version.whole.schema, sample)
    held = made.holds(events)
    for i, event in enumerate(sample):
        assert held[i] or not matcher.match(event)
    json.dumps(made.described())


def squares() -> tuple[Matcher, pa.Table]:
    rng = np.random.default_rng(4)
    corner = rng.integers(0, 900, (80, 2))
    m = Matcher(index="scan")
    low = {f"{n}_lo": corner[:, i] for i, n in enumerate("xy")}
    high = {f"{n}_hi": corner[:, i] + 30 for i, n in enumerate("xy")}
    m.add_many(pa.table({"id": np.arange(80), **low, **high}))
    points = rng.integers(0, 1_000, (12_000, 2))
    return m, pa.table({"x": points[:, 0], "y": points[:, 1]})


def test_gaps_are_closed_within_the_budget() -> None:
    m, events = squares()
    sizes = []
    for budget in (0.0, 0.2, 1.0, 50.0):
        made = summarize(m, events, budget)
        sizes.append(len(made))
        first, last = made.ranges
        assert (first <= last).all() and (last[:-1] + 1 < first[1:]).all()
        assert made.held_back.events == 6_000
        if len(made) < made.before:
            assert made.decided.share <= budget and made.held_back.share <= 1.3 * budget
    assert sizes[0] == made.before and sizes[-1] == 1
    assert sizes == sorted(sizes, reverse=True)


def test_the_space_travels_with_the_ranges() -> None:
    m = Matcher()
    m.add("a", "city = 'Oslo' AND price BETWEEN 1.5 AND 2.5")
    m.add("b", "city >= 'Rome' AND price > 4e0")
    made = summarize(m, [{"city": "Oslo", "price": 2.0}] * 12, 0.0)
    table = made.to_arrow()
    space = json.loads(table.schema.metadata[SPACE_KEY])
    assert [axis["attribute"] for axis in space["axes"]] == ["city", "price"]
    assert space["bits"] == 3  # NULL, below the first cut, and three or four cuts
    assert all(cut.startswith((">=", ">")) for axis in space["axes"] for cut in axis["cuts"])
    assert table.num_rows == len(made)


def test_mistakes_get_a_sentence() -> None:
    m, events = squares()
    with pytest.raises(EarmarkError, match="expected a share of extra traffic as budget"):
        summarize(m, events, -1)
    with pytest.raises(EarmarkError, match="for axes, got 0"):
        summarize(m, events, 0.1, axes=0)


def test_the_grid_is_no_finer_than_its_cuts() -> None:
    m = Matcher()
    m.add("young", "age BETWEEN 18 AND 25 AND city = 'Oslo'")
    m.add("older", "age BETWEEN 26 AND 40 AND city = 'Oslo'")
    m.add("often", "age BETWEEN 20 AND 22 AND city = 'Oslo' AND visits > 3")
    m.add("rome", "age = 50 AND city = 'Rome'")
    made = summarize(m, [], 0)
    cuts = [len(axis["cuts"]) for axis in made.described()["axes"]]
    assert 2 ** (made.described()["bits"] - 1) < max(cuts) + 2 <= 2 ** made.described()["bits"]
    assert len(made) < 60
    assert len(summarize(m, [], 0, cell_bits=2).space.cuts) <= 6  # never more cells than were asked for
