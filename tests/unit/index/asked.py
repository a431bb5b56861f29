"""What the tests of indexes share: every question put to an index, its answers compared with a plain Python loop."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numba import config
from tests.unit.made import (
    GREATEST,
    LEAST,
    Clause,
    Constraint,
    Event,
    Made,
    Subscription,
    Value,
    best,
    event_arrays,
    matching,
)

from earmark.errors import EarmarkError
from earmark.flat import bits
from earmark.flat.arrays import U64
from earmark.index.one import borrow, give_back

PLAIN = bool(config.DISABLE_JIT)
"""Without the JIT a search is a thousand times slower: the same tests on less."""

EVERY = tuple(product((1, 3, 1000), (False, True)))
"""(k, relaxed): few and all that there are, in either mode."""


MICS_WAYS: list[dict[str, Any]] = [
    {},
    {"attributes": (0,)},
    {"attributes": (1, 0), "bits": 2},
    {"attributes": (0, 1, 2), "bits": 3, "cells": "equal"},
    {"attributes": (0, 1, 2, 3), "bits": 5, "pieces": 3},
    {"attributes": (3, 1), "bits": 1, "pieces": 1},
    {"attributes": (0, 1), "bits": 16},
    {"most": 1},
    {"most": 5, "cells": "equal", "pieces": 10},
]
VCR_WAYS: list[dict[str, Any]] = [
    {"mode": mode, "store": store, "decomposition": decomposition, "numbering": numbering}
    for mode, store, decomposition, numbering in product(
        ("cells", "points"), ("array", "hashed"), ("simple", "overlapped"), ("corner", "shape")
    )
]
VCR_GRIDS: list[dict[str, Any]] = [
    {},
    {"longest": (1, 1)},
    {"longest": (4, 2), "cells": (5, 3)},
    {"longest": (2, 8), "cells": (2, 40)},
    {"attributes": (1, 0)},
    {"attributes": (0,), "cells": (9, 2)},
]
"""Options under which these indexes must give the same answers."""


def made_of(clauses: Sequence[Clause], events: Sequence[Event], **columns: Any) -> Made:
    """Subscriptions of one clause each, all eligible, in order of insertion."""
    made = Made([Subscription([clause], sequence=i) for i, clause in enumerate(clauses)], list(events), **columns)
    made.eligible = [True] * len(clauses)
    return made


def part_of(made: Made, count: int) -> Made:
    """The same with the first so many subscriptions."""
    return replace(made, subscriptions=made.subscriptions[:count], eligible=made.eligible[:count])


def extremes() -> Made:
    """Rectangles and events whose ends are those of the key space, their neighbours, and a few in between."""
    keys = (LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST)
    pairs = [(lo, hi) for lo in keys for hi in keys if lo <= hi]
    chosen = Random(1).sample(list(product(pairs, pairs)), 30 if PLAIN else 200)
    events = [{0: Value(a, a), 1: Value(*b)} for a, b in product(keys, pairs[:: 9 if PLAIN else 3])]
    return made_of([{0: Constraint([x]), 1: Constraint([y])} for x, y in chosen], events)


def nothings() -> list[Made]:
    """Tables with nothing to put into a structure: empty, always true, never true."""
    events: list[Event] = [{0: Value(1, 1)}, {}]
    always = Made([Subscription([{}])], events, eligible=[True])
    never = Made([Subscription([]), Subscription([{0: Constraint([])}], sequence=1)], events, eligible=[True, True])
    return [Made([], events), always, never]


def selective() -> Made:
    """Attributes 0 to 3, of which the last is the narrowest, but in few subscriptions; 1 is worth most, then 2."""
    random = Random(2)
    clauses = []
    for i in range(200):
        lo = [random.randrange(1000) for _ in range(4)]
        clause = {a: Constraint([(lo[a], lo[a] + width)]) for a, width in ((0, 900), (1, 20), (2, 30), (3, 1))}
        if i % 10:
            del clause[3]
        clauses.append(clause)
    return made_of(clauses, [])


def ends() -> Made:
    """Ranges and events of one attribute whose ends are those of the key space, their neighbours, and a few between."""
    keys = (LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST)
    pairs = [(lo, hi) for lo in keys for hi in keys if lo <= hi]
    return made_of([{0: Constraint([pair])} for pair in pairs], [{0: Value(lo, hi)} for lo, hi in pairs] + [{}])


def nulls() -> Made:
    """Constraints that accept NULL, nothing or several ranges, and clauses without any; events that lack attributes."""
    clauses: list[Clause] = [
        {},
        {0: Constraint([], accepts_null=True)},
        {0: Constraint([])},
        {0: Constraint([(3, 5)])},
        {0: Constraint([(3, 5)], accepts_null=True)},
        {0: Constraint([(3, 5), (6, 6), (8, GREATEST)])},
        {0: Constraint([(3, 5)], accepts_null=True), 1: Constraint([(1, 1), (7, 9)])},
        {0: Constraint([(LEAST, 5), (9, GREATEST)], accepts_null=True), 1: Constraint([(1, 1), (7, 9)])},
        {0: Constraint([(3, 5)], accepts_null=True), 1: Constraint([(1, 1), (7, 9)], accepts_null=True)},
    ] * 30
    keys: list[Value | None] = [None, Value(4, 4), Value(6, 6), Value(5, 8), Value(LEAST, GREATEST)]
    events = [
        {attr: value for attr, value in ((0, zero), (1, one), (9, Value(0, 0))) if value is not None}
        for zero in keys
        for one in keys
    ]
    return made_of(clauses[: 20 if PLAIN else None], events[::7] if PLAIN else events)


def several_clauses(seed: int) -> Made:
    """Subscriptions of up to four weighted clauses, of which an event may match several."""
    rng = Random(seed)
    subscriptions = []
    for i in range(30 if PLAIN else 100):
        clauses = [
            {a: Constraint([(0, rng.randrange(9))], weight=rng.choice((0.1, 1, 3.0))) for a in rng.sample(range(4), 2)}
            for _ in range(rng.randrange(1, 5))
        ]
        subscriptions.append(Subscription(clauses, rng.choice((0.0, 0.1, -2.5)), rng.randrange(10**6) * 200 + i))
    keys = [(0, 3, 5, rng.randrange(9)) for _ in range(6)]
    events: list[Event] = [{a: Value(v, v, rng.random()) for a, v in enumerate(row)} for row in keys]
    return Made(subscriptions, events, True, True, True, [rng.random() < 0.9 for _ in subscriptions])


def eligible(made: Made) -> U64:
    """Who may be returned, as a bitmap."""
    return bits.from_slots(np.flatnonzero(made.eligible), len(made.subscriptions))


def assert_matches(made: Made, index: Any, events: Sequence[Event] | None = None, threads: int = 1) -> None:
    """All matches of these events, by default of all, in a batch."""
    asked = made.events if events is None else list(events)
    pointers, slots = index.match_many(event_arrays(made, asked), eligible(made), threads)
    assert pointers.dtype == np.int64
    assert slots.dtype == np.int32
    answers = [slots[a:b].tolist() for a, b in pairwise(pointers)]
    assert answers == [matching(made, event) for event in asked]
    assert index.work.matched == len(slots)


def assert_ranks(made: Made, index: Any, events: Sequence[Event], k: int, relaxed: bool, threads: int = 1) -> None:
    """The k best of these events, in a batch."""
    arrays = event_arrays(made, list(events))
    pointers, slots, scores = index.top_k_many(arrays, k, eligible(made), relaxed, threads=threads)
    answers = [list(zip(slots[a:b].tolist(), scores[a:b].tolist(), strict=True)) for a, b in pairwise(pointers)]
    assert answers == [best(made, event, k, relaxed) for event in events]


def assert_searches(made: Made, index: Any, ks: Sequence[int] = (1, 3, 1000)) -> None:
    """Every question of all events, in a batch; the index is not checked, since it may not be as `build` makes it."""
    assert_matches(made, index)
    for k, relaxed in product(ks, (False, True)):
        assert_ranks(made, index, made.events, k, relaxed)


def assert_nothing_found(index: Any, made: Made) -> None:
    """An index of nothing answers its events, and no events at all."""
    assert_searches(made, index)
    assert index.match_many(event_arrays(made, []), eligible(made))[0].tolist() == [0]
    assert index.top_k_many(event_arrays(made, []), 3, eligible(made))[0].tolist() == [0]


def assert_alone(made: Made, index: Any, count: int = 5, k: int = 4) -> None:
    """The first events, one at a time, out of the batch and by themselves: all matches, and the k best in each mode."""
    everything, room = event_arrays(made, made.events), borrow()
    for e, event in enumerate(made.events[:count]):
        entries = [(attr, value.lo, value.hi, "") for attr, value in sorted(event.items())]
        room.take(entries, [event[entry[0]].weight for entry in entries] if made.event_weighted else [])
        assert index.match(everything, eligible(made), e).tolist() == matching(made, event)
        assert index.match_one(room, eligible(made)) == matching(made, event)
        for relaxed in (False, True):
            slots, scores = index.top_k(everything, k, eligible(made), relaxed, e)
            assert list(zip(slots.tolist(), scores.tolist(), strict=True)) == best(made, event, k, relaxed)
            ranks = index.best_of_one(room, k, eligible(made), relaxed)
            assert list(zip(*ranks, strict=True)) == best(made, event, k, relaxed)
    give_back(room)


def assert_answers(made: Made, index: Any, asked: Sequence[tuple[int, bool]] = EVERY) -> None:
    """The index is in order, and every question of all events gets its answer; `asked` are (k, relaxed)."""
    index.check()
    assert_matches(made, index)
    for k, relaxed in asked:
        assert_ranks(made, index, made.events, k, relaxed)
    assert_alone(made, index, 2 if PLAIN else 5)


def assert_only_known(made: Made, index: Any, known: int, e: int) -> None:
    """An index over the first `known` slots answers no others, though they are eligible; event e matches widely."""
    events, every = event_arrays(made, made.events), bits.all_set(2000)
    pointers, slots = index.match_many(events, every)
    some = part_of(made, known)
    some.eligible = [True] * known
    assert [slots[a:b].tolist() for a, b in pairwise(pointers)] == [matching(some, event) for event in made.events]
    for relaxed in (False, True):
        assert index.top_k(events, 99, every, relaxed, e)[0].max() < known


def assert_refuses(index: Any, made: Made) -> None:
    """A k of nothing, and an event that the batch of one has not, get a sentence."""
    events = event_arrays(made, made.events)
    with pytest.raises(EarmarkError, match="k must be at least 1"):
        index.top_k(events, 0, eligible(made))
    with pytest.raises(EarmarkError, match="no event 1 in a batch of 1"):
        index.match(events, eligible(made), 1)


# --- arrays ------------------------------------------------------------------------------------------------------


def mapped(arrays: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Arrays by name, written to files and mapped."""
    found = {}
    for name, column in arrays.items():
        np.save(folder / f"{name}.npy", column)
        found[name] = np.load(folder / f"{name}.npy", mmap_mode="r" if len(column) else None)
    return found


def changed(arrays: dict[str, Any], name: str, where: Any, value: Any) -> dict[str, Any]:
    """Arrays by name of which one differs at a place, or places."""
    column = arrays[name].copy()
    column[where] = value
    return {**arrays, name: column}


def output_without_jit(*files: Path | str, only: str = "") -> str:
    """What pytest says of test files (those marked `only`) that run without the JIT; they pass."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *(["-m", only] if only else ()),
            *map(str, files),
        ],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout[-4000:]
