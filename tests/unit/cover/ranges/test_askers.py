"""Who asks for a number, against sets of numbers; and turns of additions and removals against doing them one by one."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from earmark.cover.ranges.askers import MOST_CODES, Askers, Change
from earmark.cover.ranges.table import NO_NUMBERS, Ranges, RangeSet, as_ranges, balance
from earmark.flat.arrays import pointers_of

TOP = 60
CODES = (0, 1, 5, MOST_CODES - 1)
pairs = st.tuples(st.integers(0, TOP), st.integers(0, 12)).map(lambda p: (p[0], min(TOP, p[0] + p[1])))
several = st.lists(pairs, max_size=4)


def numbers(ranges: Ranges) -> set[int]:
    found = [n for first, last in ranges.pairs() for n in range(first, last + 1)]
    assert len(found) == len(set(found))
    return set(found)


def wanted_by_others(asked: dict[int, RangeSet], code: int) -> set[int]:
    return set().union(*(numbers(ranges.ranges()) for other, ranges in asked.items() if other != code))


def test_the_example() -> None:
    askers = Askers()
    assert askers.add(1, as_ranges([(10, 20)])).of(2).pairs() == [(10, 20)]
    second = askers.add(2, as_ranges([(15, 30)]))
    assert second.of(1).pairs() == [(15, 20), (21, 30)] and second.of(7).pairs() == [(21, 30)]
    third = askers.add(3, as_ranges([(12, 25)]))
    assert third.of(1).pairs() == [(12, 14)] and third.of(2).pairs() == [(21, 25)] and not third.of(7)
    gone = askers.discard(1, as_ranges([(10, 20)]))
    assert gone.of(2).pairs() == [(10, 11)] == gone.of(7).pairs()
    assert gone.of(3).pairs() == [(10, 11), (12, 14)]
    askers.check()


@given(changes=st.lists(st.tuples(st.sampled_from(CODES), st.booleans(), several), max_size=12))
def test_what_others_ask_for(changes: list[tuple[int, bool, list[tuple[int, int]]]]) -> None:
    askers, asked = Askers(), {code: RangeSet() for code in CODES}
    for code, is_added, ranges in changes:
        before = {other: wanted_by_others(asked, other) for other in CODES}
        if is_added:
            change = askers.add(code, asked[code].add(ranges))
        else:
            change = askers.discard(code, asked[code].discard(ranges))
        askers.check()
        for other in CODES:
            after = wanted_by_others(asked, other)
            assert numbers(askers.beside(other)) == after
            assert numbers(askers.unasked(other, as_ranges(ranges))) == numbers(as_ranges(ranges)) - after
            if other != code:
                assert numbers(change.of(other)) == after ^ before[other]


@given(known=several, ranges=several)
def test_what_is_outside_a_set(known: list[tuple[int, int]], ranges: list[tuple[int, int]]) -> None:
    asked = as_ranges(ranges)
    assert numbers(RangeSet(known).outside(asked)) == numbers(asked) - numbers(as_ranges(known))


def test_many_ranges_of_many_links() -> None:
    rng = random.Random(4)
    askers, asked = Askers(), {code: RangeSet() for code in range(6)}
    for step in range(60):
        code = rng.randrange(6)
        ranges = [(n, n + rng.randrange(40)) for n in (rng.randrange(30_000) for _ in range(300))]
        if step % 3:
            askers.add(code, asked[code].add(ranges))
        else:
            askers.discard(code, asked[code].discard(ranges))
    askers.check()
    for code in asked:
        others = RangeSet()
        for other, known in asked.items():
            if other != code:
                others.add(known.ranges())
        assert askers.beside(code).pairs() == others.ranges().pairs()


def test_nothing_changes_nothing() -> None:
    askers, nothing = Askers(), Ranges(NO_NUMBERS, NO_NUMBERS)
    assert isinstance(askers.add(3, nothing), Change) and not askers.discard(3, nothing).of(1)
    assert balance(nothing, nothing) == (nothing, nothing) and not askers.beside(0)


@given(before=several, turns=st.lists(st.tuples(st.booleans(), several), min_size=1, max_size=8))
def test_turns_are_followed_in_order(
    before: list[tuple[int, int]], turns: list[tuple[bool, list[tuple[int, int]]]]
) -> None:
    """Of what comes and goes in between, nothing is said."""
    followed, expected = RangeSet(before), RangeSet(before)
    made = [(wanted, as_ranges(ranges)) for wanted, ranges in turns]
    for wanted, ranges in made:
        (expected.add if wanted else expected.discard)(ranges)
    joined = Ranges(*(np.concatenate([NO_NUMBERS, *(ranges[end] for _, ranges in made)]) for end in (0, 1)))
    start = pointers_of([len(ranges.first) for _, ranges in made])
    came, went = followed.follow(start, joined, np.array([wanted for wanted, _ in made], np.bool_))
    followed.check()
    assert followed.ranges().pairs() == expected.ranges().pairs()
    assert numbers(came) == numbers(expected.ranges()) - numbers(as_ranges(before))
    assert numbers(went) == numbers(as_ranges(before)) - numbers(expected.ranges())
    assert came.first.tolist() == sorted(came.first.tolist()) and went.first.tolist() == sorted(went.first.tolist())
