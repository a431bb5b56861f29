"""Projections of what a neighbour wants: never a miss, for any table, event and space; and how much is sent in vain."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from numba import config
from tests.unit.made import (
    GREATEST,
    LEAST,
    Constraint,
    Made,
    Maker,
    Subscription,
    Value,
    event_arrays,
    matching,
    table_arrays,
)

from earmark.cover.ranges.projection import Projection, ranges_of_events
from earmark.cover.ranges.subsumption import Subsumption, ranges_of_slots
from earmark.cover.ranges.table import RangeSet
from earmark.curves import hilbert
from earmark.curves.space import boxes_of_events, learned_space, space_of
from earmark.errors import EarmarkError
from earmark.flat import bits
from earmark.index.mics import MicsIndex
from earmark.workload.mics import mics

PLAIN = bool(config.DISABLE_JIT)
WAYS: list[dict[str, Any]] = [
    {"bits": 2},
    {"bits": 5},
    {"attributes": (0,), "bits": 3},
    {"attributes": (1, 0), "bits": 4},
    {"attributes": (0, 1, 2, 3, 4), "bits": 3},
    {"axes": 4, "bits": 1},
]


def every(made: Made) -> Made:
    made.eligible = [True] * len(made.subscriptions)
    return made


@pytest.mark.parametrize("seed", range(2 if PLAIN else 12))
def test_never_a_miss(seed: int) -> None:
    """Every form: cells of equal and of variable width, on chosen or given attributes, and the exact index."""
    made = every(Maker(seed).made(15 if PLAIN else 120, 30))
    table, events = table_arrays(made), event_arrays(made, made.events)
    wanted = np.array([bool(matching(made, event)) for event in made.events])
    for way in WAYS:
        for learn in (None, events):
            sent = Projection.build(table, **way, events=learn).sends(events)
            assert not (wanted & ~sent).any(), way
    space = learned_space(table, 2, 3)
    subsumed = Subsumption.build(table, space=space)
    assert not (wanted & ~Projection(space, subsumed.claimed).sends(events)).any()
    index = MicsIndex.build(table)
    pointers, _ = index.match_many(events, bits.all_set(len(made.subscriptions)))
    assert np.array_equal(np.diff(pointers) > 0, wanted)


def test_the_box_of_figure_3() -> None:
    """Cells 4..6 by 2..5 are [32, 35], [45, 46] and [50, 55]; publications 52 and 50 are sent, 28 is not."""
    cuts = np.arange(2, 8)
    space = space_of(np.array([0, 1], np.int32), [cuts, cuts], 3)
    made = every(Made([Subscription([{0: Constraint([(4, 6)]), 1: Constraint([(2, 5)])}])], []))
    made.events = [{0: Value(x, x), 1: Value(y, y)} for x, y in ((3, 5), (5, 3), (6, 2))]
    table, events = table_arrays(made), event_arrays(made, made.events)
    projection = Projection.build(table, space=space)
    assert projection.ranges().pairs() == [(32, 35), (45, 46), (50, 55)]
    assert len(projection) == 3
    assert ranges_of_events(space, events)[1].tolist() == [28, 52, 50]
    assert projection.sends(events).tolist() == [False, True, True]
    assert ranges_of_slots(space, table, np.array([0])).of(0).pairs() == projection.ranges().pairs()
    assert projection.measured(table, events) == (3, 2, 2)


def test_events_as_ranges_hold_their_boxes() -> None:
    random = Random(5)
    made = Made([], [])
    for _ in range(60):
        lo = [random.randrange(-5, 70) for _ in range(3)]
        made.events.append(
            {a: Value(x, x + random.choice((0, 0, 3, 40, GREATEST - x))) for a, x in enumerate(lo) if x > -4}
        )
    made.events.append({0: Value(LEAST, GREATEST), 1: Value(LEAST, GREATEST), 2: Value(LEAST, GREATEST)})
    events = event_arrays(made, made.events)
    cuts = np.arange(2, 58, 4)
    space = space_of(np.arange(3, dtype=np.int32), [cuts] * 3, 4)
    low, high = boxes_of_events(space, events)
    for most in (1, 6, 10**6):
        start, first, last = ranges_of_events(space, events, most)
        for e, (a, b) in enumerate(pairwise(start.tolist())):
            numbers = hilbert.cells(
                np.concatenate([np.arange(x, y + 1) for x, y in zip(first[a:b], last[a:b], strict=True)]), 3, 4
            )
            inside = ((low[e] <= numbers) & (numbers <= high[e])).all(axis=1).sum()
            assert inside == np.prod(high[e] - low[e] + 1)
            assert most < 10**6 or inside == len(numbers)


def test_wide_boxes_have_few_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clause without a constraint on most axes is enlarged instead of cut into thousands of ranges."""
    monkeypatch.setattr("earmark.cover.ranges.projection.PIECES", 8)
    made = every(Made([Subscription([{0: Constraint([(i, i)])}], sequence=i) for i in range(0, 90, 9)], []))
    made.events = [{0: Value(v, v), 1: Value(v, v)} for v in range(90)] + [{}]
    made.subscriptions.append(
        Subscription([{1: Constraint([(7, 7)])}, {2: Constraint([], accepts_null=True)}], sequence=99)
    )
    table, events = table_arrays(every(made)), event_arrays(made, made.events)
    projection = Projection.build(table, attributes=(0, 1, 2), bits=4)
    assert len(projection) <= 8 * 12
    assert projection.sends(events).all()
    never = every(Made([Subscription([{0: Constraint([])}])], made.events))
    assert not Projection.build(table_arrays(never), attributes=(0,)).sends(events).any()
    assert not Projection(projection.space, RangeSet()).sends(events).any()
    assert Projection.build(table, slots=np.array([10], np.int32), attributes=(0,)).sends(events).all()


def test_projection_is_measured() -> None:
    """More attributes send less in vain, and what is sent in vain is counted."""
    workload = mics(
        "zipf", 1_000 if PLAIN else 3_000, 300 if PLAIN else 1_000, attributes=4, sizes=(4, 4, 4, 30), grain=8
    )
    table, events = workload.table(), workload.events()
    found = [Projection.build(table, attributes=range(d), bits=6).measured(table, events) for d in (1, 2, 3)]
    inside = (
        (workload.sub_lo <= workload.event_value[:, None]) & (workload.event_value[:, None] <= workload.sub_hi)
    ).all(axis=2)
    for one in found:
        assert one.wanted == inside.any(axis=1).sum()
        assert one.events == len(inside)
        assert one.wanted <= one.sent
    assert found[2].sent < found[1].sent < found[0].sent
    assert 0 <= found[2].false_share < found[0].false_share < 1
    learned = Projection.build(table, attributes=range(3), bits=6, events=events).measured(table, events)
    assert learned.false_share < found[2].false_share
    assert Projection.build(table).measured(table, events, slots=np.empty(0, np.int32)).wanted == 0


def test_bad_requests_get_a_sentence() -> None:
    table = mics("uniform", 10, 1).table()
    for way in ({"axes": 8, "bits": 8}, {"attributes": range(7), "bits": 9}):
        with pytest.raises(EarmarkError, match="use fewer bits or attributes"):
            Projection.build(table, **way)  # type: ignore[arg-type]
    large = space_of(np.arange(4, dtype=np.int32), [np.empty(0, np.int64)] * 4, 15)
    with pytest.raises(EarmarkError, match="use fewer bits or attributes"):
        Projection.build(table, space=large)
