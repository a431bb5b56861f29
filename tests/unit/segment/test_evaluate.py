"""The evaluator and the bitmaps against plain Python."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from numba import config
from tests.unit.made import (
    Clause,
    Constraint,
    Made,
    Maker,
    Subscription,
    event_arrays,
    held,
    matching,
    score,
    table_arrays,
)

from earmark.flat import bits
from earmark.flat.arrays import I64, U64, pointers_of, read_only
from earmark.flat.machine import aligned, and_between8, at, count_less8, ctz64, or_between8, popcount64
from earmark.jit import kernel
from earmark.segment.evaluate import clause_failures, fixed_scores, match_rows, near_misses, score_matches, slot_score

PLAIN = bool(config.DISABLE_JIT)
SEEDS = range(3) if PLAIN else range(20)


def make(seed: int) -> Made:
    return Maker(seed).made(40, 6)


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_are_bit_equal(seed: int) -> None:
    made = make(seed)
    table, events = table_arrays(made), event_arrays(made, made.events)
    for e, event in enumerate(made.events):
        for slot, subscription in enumerate(made.subscriptions):
            for relaxed in (False, True):
                expected = score(subscription, event, relaxed)
                qualifies, got = slot_score(table, slot, events, e, relaxed)
                assert qualifies == (expected is not None)
                assert got == (expected or 0.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_of_matches_are_bit_equal_looked_up_or_not(seed: int) -> None:
    made = make(seed)
    table, events = table_arrays(made), event_arrays(made, made.events)
    matches = [matching(made, event) for event in made.events]
    slots, pointers = np.array(list(chain.from_iterable(matches)), np.int32), pointers_of([len(one) for one in matches])
    expected = [score(made.subscriptions[s], e, False) for e, m in zip(made.events, matches, strict=True) for s in m]
    fixed = fixed_scores(table)
    assert score_matches(table, fixed, events, pointers, slots).tolist() == expected
    assert score_matches(table, np.full_like(fixed, np.nan), events, pointers, slots).tolist() == expected


def test_which_scores_depend_on_the_event() -> None:
    one, null = Constraint([(0, 9)], weight=0.1), Constraint([(0, 9)], accepts_null=True)
    clauses: list[list[Clause]] = [[{0: one, 1: one}], [{0: one, 1: null}], [{0: one}, {1: one}], [{0: one}, {}], [{}]]
    made = Made([Subscription(own, 0.7, i) for i, own in enumerate(clauses)], [], weighted=True, scored=True)
    fixed = fixed_scores(table_arrays(made))
    assert np.isnan(fixed).tolist() == [False, True, False, True, False]
    assert fixed[[0, 2, 4]].tolist() == [0.7 + 0.1 + 0.1, 0.7 + 0.1, 0.7]


@pytest.mark.parametrize("seed", SEEDS)
def test_failures_are_counted_to_the_limit(seed: int) -> None:
    made = make(seed)
    table, events = table_arrays(made), event_arrays(made, made.events)
    clauses = [clause for subscription in made.subscriptions for clause in subscription.clauses]
    for e, event in enumerate(made.events):
        for number, clause in enumerate(clauses):
            failing = len(clause) - len(held(clause, event))
            for limit in (0, 1, 100):
                assert clause_failures(table, number, events, e, limit) == min(failing, limit + 1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("room", [1, 7, 100])
def test_match_rows_resumes(seed: int, room: int) -> None:
    made = make(seed)
    table, events = table_arrays(made), event_arrays(made, made.events)
    eligible = bits.from_slots(np.flatnonzero(made.eligible), len(made.subscriptions))
    for e, event in enumerate(made.events):
        found: list[int] = []
        slot, out = 0, np.empty(room, np.int32)
        while slot < len(made.subscriptions):
            count, slot = match_rows(table, events, e, eligible, slot, out)
            found += out[:count].tolist()
        assert found == matching(made, event)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("room", [1, 100])
def test_near_misses(seed: int, room: int) -> None:
    made = make(seed)
    table, events = table_arrays(made), event_arrays(made, made.events)
    eligible = bits.from_slots(np.flatnonzero(made.eligible), len(made.subscriptions))
    for e, event in enumerate(made.events):
        for missing in (1, 2):
            expected = []
            for slot, subscription in enumerate(made.subscriptions):
                failures = [len(clause) - len(held(clause, event)) for clause in subscription.clauses]
                fewest = min(failures, default=99)
                if made.eligible[slot] and 0 < fewest <= missing:
                    expected.append((slot, fewest, int(table.clause_start[slot]) + failures.index(fewest)))
            found: list[tuple[int, ...]] = []
            slot, out = 0, np.empty((room, 3), np.int32)
            while slot < len(made.subscriptions):
                count, slot = near_misses(table, events, e, eligible, missing, slot, out)
                found += [tuple(row) for row in out[:count].tolist()]
            assert found == expected


def test_bitmaps() -> None:
    for total in (0, 1, 63, 64, 65, 200):
        assert bits.count(bits.all_set(total)) == total
        assert bits.to_slots(bits.all_set(total)).tolist() == list(range(total))
    some = bits.from_slots(np.array([1, 3, 64, 199]), 200)
    assert len(some) == bits.words_for(200) == 4
    assert bits.to_slots(some).tolist() == [1, 3, 64, 199]
    assert bits.to_slots(bits.set_slots(some, np.array([2, 2]))).tolist() == [1, 2, 3, 64, 199]
    short = bits.from_slots(np.array([3, 9]), 10)
    assert bits.to_slots(bits.both(some, short)).tolist() == [3]
    assert bits.to_slots(bits.either(short, some)).tolist() == [1, 3, 9, 64, 199]
    assert bits.to_slots(some).tolist() == [1, 3, 64, 199]
    assert not some.flags.writeable


def test_read_only_leaves_the_callers_array_alone() -> None:
    array = np.zeros(3)
    view = read_only(array)
    assert array.flags.writeable
    assert not view.flags.writeable
    assert view.base is array


def test_aligned_arrays_start_on_a_cache_line() -> None:
    for length in (1, 9, 1000):
        array = aligned(length, np.int64)
        assert array.ctypes.data % 64 == 0
        assert array.shape == (length,)


@kernel
def scalar_helpers(words: U64, out: I64) -> None:
    for i in range(len(words)):
        out[2 * i], out[2 * i + 1] = ctz64(at(words, i)), popcount64(words[i])


@kernel
def vector_helpers(keys: I64, i: int, key: int, words: U64) -> tuple[int, bool]:
    or_between8(words, 0, 8, 16, 24)
    some = and_between8(words, 32, 8, 16, 24)
    return count_less8(keys, i, key), some


def test_scalar_helpers() -> None:
    words = [0, 1, 2**63, 2**64 - 1, 0b101000]
    out = np.empty(2 * len(words), np.int64)
    scalar_helpers(np.array(words, np.uint64), out)
    assert out.tolist() == [64, 0, 0, 1, 63, 1, 0, 64, 3, 2]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint64, np.float64])
def test_vector_helpers(dtype: type) -> None:
    random = np.random.default_rng(1)
    for _ in range(20):
        keys = random.integers(0, 50, 80).astype(dtype)
        words = random.integers(0, 2**63, 40, dtype=np.uint64)
        a, b, c = words[8:16].copy(), words[16:24].copy(), words[24:32].copy()
        key = dtype(20)
        less, some = vector_helpers(keys, 5, key, words)
        assert less == (keys[5:13] < key).sum()
        assert (words[0:8] == a | (b & ~c)).all()
        assert (words[32:40] == a & b & ~c).all()
        assert some == (a & b & ~c).any()
    words[8:16] = 0
    assert not vector_helpers(keys, 5, key, words)[1]
