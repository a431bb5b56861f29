"""k-index against a plain Python loop: matches, ranking, scores to the last bit; and its lists as drawn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tests.unit.index.asked import (
    PLAIN,
    assert_answers,
    assert_matches,
    assert_refuses,
    eligible,
    made_of,
    output_without_jit,
)
from tests.unit.made import (
    GREATEST,
    LEAST,
    Constraint,
    Event,
    Maker,
    Value,
    event_arrays,
    matching,
    table_arrays,
)

from earmark.errors import EarmarkError
from earmark.flat import bits
from earmark.index.k_index import KIndex
from earmark.index.k_index.arrays import MOST, NEVER

SLOTS = 20 if PLAIN else 150
both_merges = pytest.mark.parametrize("merge", ["conjunction", "counting"])


def test_the_drawing() -> None:
    """The example of `arrays.py`."""
    clauses: list[dict[int, Constraint]] = [
        {0: Constraint([(1, 1)]), 1: Constraint([(2, 2)])},
        {0: Constraint([(1, 1), (3, 3)])},
        {0: Constraint([], accepts_null=True)},
        {0: Constraint([])},
    ]
    made = made_of(clauses, [{0: Value(1, 1), 1: Value(2, 2)}, {0: Value(3, 3)}, {1: Value(2, 2)}, {}])
    built = KIndex.build(table_arrays(made))
    arrays = built.arrays
    assert arrays.clause_of.tolist() == [0, 1, 2, 3]
    assert arrays.required.tolist() == [2, 1, 0, NEVER]
    assert arrays.loose.tolist() == [0, 0, 1, 0]
    assert arrays.partition_size.tolist() == [2, 1, 0]
    assert arrays.partition_first.tolist() == [0, 1, 2, 3]
    assert arrays.coordinate[: arrays.coordinate_start[1]].tolist() == [1, 2, 3, 4]
    levels = np.diff(arrays.level_first)[: arrays.level_start[1]]
    assert levels.tolist() == [5, 2, 1]
    lists = [arrays.posting[a:b].tolist() for a, b in pairwise(arrays.posting_start.tolist())]
    assert lists[:8] == [[], [0, 1], [], [1], [], [], [], []]
    assert_answers(made, built)


def test_a_wide_range_has_few_postings() -> None:
    """A thousand cells, yet a range of any width has at most 2 (fan-out - 1) nodes a level, and all of the line one."""
    points = [{0: Constraint([(2 * i, 2 * i)])} for i in range(1000)]
    wide = [{0: Constraint([(3, 1801)])}, {0: Constraint([(LEAST, GREATEST)])}, {0: Constraint([(77, GREATEST)])}]
    for fanout, most in ((2, 22), (4, 36)):
        built = KIndex.build(table_arrays(made_of(points + wide, [])), fanout)
        own = np.bincount(built.arrays.posting, minlength=1003)[1000:]
        assert own[0] <= most
        assert own[1] == 1
        assert own[2] <= most // 2


@both_merges
def test_a_constraint_that_accepts_null_is_no_posting(merge: str) -> None:
    """Found by the other predicate, or by none at all; and verified."""
    null = Constraint([(5, 9)], accepts_null=True)
    clauses = [{0: null}, {0: null, 1: Constraint([(0, 3)])}, {0: null, 1: null}, {}]
    events: list[Event] = [
        {},
        {0: Value(5, 5)},
        {0: Value(1, 1)},
        {1: Value(2, 2)},
        {0: Value(1, 1), 1: Value(2, 2)},
        {0: Value(6, 6), 1: Value(2, 2)},
        {7: Value(0, 0)},
    ]
    made = made_of(clauses, events)
    built = KIndex.build(table_arrays(made), merge=merge)
    assert built.arrays.partition_size.tolist() == [1, 0]
    assert_answers(made, built)


@both_merges
def test_more_predicates_than_are_counted(merge: str) -> None:
    """Beyond MOST the clause is verified instead: the last attribute decides."""
    clause = {a: Constraint([(0, 5)], weight=1.0 + a) for a in range(MOST + 6)}
    fits = {a: Value(3, 3) for a in range(MOST + 6)}
    nearly = {**fits, MOST + 5: Value(6, 6)}
    made = made_of([clause, {0: Constraint([(0, 5)])}], [fits, nearly, {0: Value(1, 1)}], weighted=True)
    assert_answers(made, KIndex.build(table_arrays(made), merge=merge))


@both_merges
def test_several_clauses_a_slot_count_once(merge: str) -> None:
    made = made_of([{}] * 40, [{0: Value(i, i + i % 3)} for i in range(12)], weighted=True)
    for i, one in enumerate(made.subscriptions):
        one.clauses = [{0: Constraint([(i % 7, i % 7 + j)], weight=float(j))} for j in range(5)]
    assert_answers(made, KIndex.build(table_arrays(made), merge=merge))


@both_merges
def test_a_full_buffer_is_resumed(merge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("earmark.index.driver.FIRST_ROOM", 1)
    made = made_of([{0: Constraint([(0, 9)])}] * 60, [{0: Value(i, i)} for i in range(9)])
    built = KIndex.build(table_arrays(made), merge=merge)
    assert_matches(made, built, made.events)
    assert built.work.candidates == 540


@both_merges
def test_bounds_prune_without_loss(merge: str) -> None:
    """Heavy and light predicates, so that most need no look once a few good ones are found."""
    count = 60 if PLAIN else 2000
    clauses = [
        {a: Constraint([(0, 5)], weight=100.0 if a == i % 50 else 0.01) for a in {i % 50, 60 + i % 7, 70 + i % 3}}
        for i in range(count)
    ]
    events: list[Event] = [{a: Value(e % 6, e % 6) for a in range(80)} for e in range(6)]
    events += [{a: Value(1, 1) for a in range(e, 80, 3)} for e in range(3)]
    made = made_of(clauses, events, weighted=True)
    built = KIndex.build(table_arrays(made), merge=merge)
    assert_answers(made, built)
    arrays = event_arrays(made, made.events)
    built.match_many(arrays, eligible(made))
    whole = built.work
    built.top_k_many(arrays, 1, eligible(made))
    if merge == "conjunction" and not PLAIN:  # counting reads all postings before it can tell
        assert built.work.pruned > 0
        assert built.work.compared <= whole.compared


@both_merges
def test_a_bound_skips_postings(merge: str) -> None:
    """One clause in a hundred is heavy: once the first is found, a merge skips from one of them to the next."""
    count = 200 if PLAIN else 2000
    clauses = [
        {0: Constraint([(0, 5)], weight=0.01), 1 + bool(i % 100): Constraint([(0, 5)], weight=0.01 if i % 100 else 9.0)}
        for i in range(count)
    ]
    made = made_of(clauses, [{a: Value(1, 1) for a in range(3)}], weighted=True)
    built, events = KIndex.build(table_arrays(made), merge=merge), event_arrays(made, made.events)
    built.match_many(events, eligible(made))
    whole = built.work
    assert whole.compared >= 2 * count  # every posting
    assert built.top_k_many(events, 1, eligible(made))[1].tolist() == [0]
    assert built.work.compared < whole.compared / 4 if merge == "conjunction" else built.work.compared == whole.compared


@both_merges
def test_comparisons_are_postings_and_constraints(merge: str) -> None:
    """Three lists of 40, 20 and 1 postings; the clause that accepts NULL is verified as well."""
    clauses = [{0: Constraint([(1, 1)])} | ({1: Constraint([(1, 1)])} if i % 2 else {}) for i in range(40)]
    clauses += [{2: Constraint([(1, 1)]), 3: Constraint([(1, 1)], accepts_null=True)}]
    made = made_of(clauses, [{0: Value(1, 1), 1: Value(1, 1), 2: Value(1, 1)}])
    built = KIndex.build(table_arrays(made), merge=merge)
    built.match_many(event_arrays(made, made.events), eligible(made))
    postings = 40 + 20 + 1
    assert built.work.candidates == 41
    if merge == "counting":
        assert built.work.compared == postings + 2
    else:
        assert postings < built.work.compared <= 3 * postings + 2


@both_merges
def test_ties_at_the_bound_go_by_sequence(merge: str) -> None:
    """All weights equal: every bound is exactly the k-th score, so nothing may be passed over."""
    made = made_of([{0: Constraint([(0, 9)]), 1: Constraint([(0, 9)])}] * 100, [{0: Value(4, 4), 1: Value(4, 4)}])
    for i, one in enumerate(made.subscriptions):
        one.sequence = -i
    assert_answers(made, KIndex.build(table_arrays(made), merge=merge))


def test_few_slots_eligible() -> None:
    made = Maker(7).made(SLOTS, 20)
    made.eligible = [slot in (3, 19, SLOTS - 1) for slot in range(SLOTS)]
    built = KIndex.build(table_arrays(made))
    assert_answers(made, built)
    _, slots = built.match_many(event_arrays(made, made.events), eligible(made)[:1])
    assert all(slot < bits.WORD for slot in slots.tolist())
    longer = np.append(eligible(made), np.full(3, ~np.uint64(0)))
    assert_matches(made, built, made.events)
    assert built.match(event_arrays(made, made.events), longer).tolist() == matching(made, made.events[0])


def test_restored_from_arrays() -> None:
    made = Maker(4).made(SLOTS, 20)
    table = table_arrays(made)
    stored = {name: array.copy() for name, array in KIndex.build(table, 8).arrays._asdict().items()}
    built = KIndex.restore(table, stored)
    assert all(not array.flags.writeable for array in built.arrays)
    assert_answers(made, built)


def test_damaged_arrays_are_refused() -> None:
    made = Maker(4).made(SLOTS, 1)
    table = table_arrays(made)
    good = KIndex.build(table).arrays
    assert KIndex.restore(table, good._asdict()).nbytes == KIndex.build(table).nbytes
    with pytest.raises(AssertionError, match="missing: posting"):
        KIndex.restore(table, {name: array for name, array in good._asdict().items() if name != "posting"})
    for name, array in good._asdict().items():
        changed = {name: array[:-1], "type": array}
        if array.dtype.kind == "i":
            changed["far"] = np.where(np.arange(len(array)) == len(array) - 1, array + 2**30, array)
            changed["below"] = np.where(np.arange(len(array)) == len(array) // 2, np.int64(-1), array)
        for kind, bad in changed.items():
            bad = bad.astype(np.int16) if kind == "type" else bad.astype(array.dtype)
            if name in ("coordinate", "bound") and kind not in ("type", name):
                continue
            if name == "always" and kind == name:  # fewer are possible; `check` finds out
                with pytest.raises(AssertionError, match="always"):
                    KIndex.restore(table, {**good._asdict(), name: bad}).check()
                continue
            with pytest.raises(AssertionError):
                KIndex.restore(table, {**good._asdict(), name: bad})


def test_check_names_what_is_not_the_table_s() -> None:
    made = Maker(9).made(SLOTS, 1)
    table = table_arrays(made)
    built = KIndex.build(table)
    other = built.arrays.posting.copy()
    other[: len(other) // 2] = 0
    with pytest.raises(AssertionError, match="posting differs"):
        KIndex.restore(table, {**built.arrays._asdict(), "posting": other}).check()


def test_bad_arguments_get_a_sentence() -> None:
    made = Maker(1).made(3, 1)
    table = table_arrays(made)
    assert_refuses(KIndex.build(table), made)
    for fanout in (0, 1, 3, 512):
        with pytest.raises(EarmarkError, match="a power of two from 2 to 256"):
            KIndex.build(table, fanout)
    with pytest.raises(EarmarkError, match="'conjunction' or 'counting', got 'magic'"):
        KIndex.build(table, merge="magic")


@pytest.mark.skipif(PLAIN, reason="this is the run without the JIT")
@pytest.mark.slow
def test_the_same_without_the_jit() -> None:
    output_without_jit(__file__)
