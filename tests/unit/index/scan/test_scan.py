"""Scan against a plain Python loop: matches, ranking, scores to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.index.asked import (
    PLAIN,
    assert_matches,
    assert_ranks,
    assert_refuses,
    eligible,
    output_without_jit,
)
from tests.unit.made import (
    Constraint,
    Made,
    Maker,
    Subscription,
    Value,
    event_arrays,
    table_arrays,
)

from earmark.flat import bits
from earmark.index import driver
from earmark.index.scan import Scan

BATCHES = (1, 2, 9, 65) if PLAIN else (1, 2, 7, 8, 9, 63, 64, 65, 130, 511, 512, 513, 600)
SLOTS = 20 if PLAIN else 150


@pytest.mark.parametrize("count", BATCHES)
def test_answers_for_every_batch_size(count: int) -> None:
    made = Maker(100 + count).made(SLOTS, count)
    scan = Scan.build(table_arrays(made))
    assert_matches(made, scan, made.events)
    for relaxed in (False, True):
        assert_ranks(made, scan, made.events, 3, relaxed)


def test_answers_with_few_slots_eligible() -> None:
    made = Maker(7).made(SLOTS, 20)
    made.eligible = [slot in (3, 64, 65, 127, SLOTS - 1) for slot in range(SLOTS)]
    scan = Scan.build(table_arrays(made))
    assert_matches(made, scan, made.events)
    _, slots = scan.match_many(event_arrays(made, made.events), eligible(made)[:1])
    assert all(slot < bits.WORD and made.eligible[slot] for slot in slots.tolist())
    made.eligible = [False] * SLOTS
    assert_matches(made, scan, made.events)


@pytest.mark.skipif(PLAIN, reason="needs many matches")
def test_a_full_buffer_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FIRST_ROOM", 1)
    made = Made([Subscription([{}], sequence=i) for i in range(300)], [{0: Value(i, i)} for i in range(40)])
    made.eligible = [True] * 300
    scan = Scan.build(table_arrays(made))
    assert_matches(made, scan, made.events)
    assert scan.work.matched == 12_000
    assert scan.match(event_arrays(made, made.events), eligible(made), 39).tolist() == list(range(300))


def test_threads_change_nothing() -> None:
    made = Maker(11).made(SLOTS, 30 if PLAIN else 700)
    scan = Scan.build(table_arrays(made))
    assert_matches(made, scan, made.events, threads=2)
    assert_ranks(made, scan, made.events, 2, True, threads=3)


def test_ties_go_by_sequence_not_slot() -> None:
    made = Made([Subscription([{0: Constraint([(0, 9)])}], sequence=-i) for i in range(10)], [{0: Value(4, 4)}])
    made.eligible = [True] * 10
    slots, scores = Scan.build(table_arrays(made)).top_k(event_arrays(made, made.events), 3, eligible(made))
    assert slots.tolist() == [9, 8, 7]
    assert scores.tolist() == [1.0, 1.0, 1.0]


def test_relaxed_search_prunes_without_loss() -> None:
    """Heaps fill early, one event stays without answers, and scores differ by slot."""
    maker = Maker(3)
    made = maker.made(SLOTS, 0)
    made.scored = True
    made.subscriptions = [
        Subscription([{a: Constraint([(0, 10 + a)]) for a in range(1 + i % 10)}], float(i % 3), sequence=999 - i)
        for i in range(SLOTS)
    ]
    made.events = [{a: Value(e + a, e + a) for a in range(10)} for e in range(15)] + [{50: Value(0, 0)}]
    scan = Scan.build(table_arrays(made))
    assert_ranks(made, scan, made.events, 2, True)
    if not PLAIN:
        assert scan.work.scored < SLOTS * len(made.events) / 2


def test_relaxed_ties_at_the_bound_go_by_sequence() -> None:
    """Weights of zero: every score, and the bound on it, is exactly the floor, so only the sequence decides."""
    made = Made([], [{0: Value(1, 1)}], weighted=True)
    made.subscriptions = [Subscription([{0: Constraint([(0, 9)], weight=0.0)}], sequence=-i) for i in range(200)]
    made.eligible = [True] * 200
    assert_ranks(made, Scan.build(table_arrays(made)), made.events, 2, True)


def test_a_table_that_grew_is_followed() -> None:
    made = Maker(5).made(SLOTS, 10)
    whole = table_arrays(made)
    part = Made(made.subscriptions[:9], made.events, made.weighted, made.scored, made.event_weighted)
    scan = Scan.build(table_arrays(part))
    scan.insert(whole, np.arange(9, SLOTS, dtype=np.int32))
    scan.remove(np.array([2], np.int32))
    made.eligible[2] = False
    assert_matches(made, scan, made.events)


def test_bad_arguments_get_a_sentence() -> None:
    made = Maker(1).made(3, 1)
    assert_refuses(Scan.build(table_arrays(made)), made)


def test_check_names_what_is_broken() -> None:
    made = Made([Subscription([{0: Constraint([(1, 2), (5, 6)]), 3: Constraint([(0, 0)])}])], [])
    table = table_arrays(made)
    Scan.build(table).check()
    for change, message in (
        ({"lo": table.lo[::-1]}, "ends before it begins"),
        ({"hi": np.array([5, 6, 0])}, "intervals of a constraint do not ascend"),
        ({"attr": table.attr[::-1]}, "attributes of a clause do not ascend"),
        ({"clause_start": np.array([1, 1], np.int32)}, "clause_start does not start at 0"),
        ({"clause_start": np.array([0, 2], np.int32)}, "constraint_start .* has the wrong length"),
        ({"weight": np.ones(1)}, "weight"),
    ):
        with pytest.raises(AssertionError, match=message):
            Scan.build(table._replace(**change)).check()


@pytest.mark.skipif(PLAIN, reason="this is the run without the JIT")
@pytest.mark.slow
def test_the_same_without_the_jit() -> None:
    output_without_jit(__file__, "tests/unit/segment/test_evaluate.py")
