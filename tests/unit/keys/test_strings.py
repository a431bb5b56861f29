"""Keys of strings: exact order for any bytes, room for more, relabelling, and readers beside a writer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from random import Random
from threading import Thread

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from earmark.flat.arrays import I64
from earmark.keys.strings import StringKeys, _shared_prefix, successor

LEAST, GREATEST = -(2**63), 2**63 - 1

texts = st.binary(max_size=4) | st.text(max_size=6).map(str.encode)
alike = st.builds(lambda n, tail: b"abc" * n + tail, st.integers(0, 3), st.binary(max_size=2))
constants = st.lists(texts | alike, max_size=30)


def made(groups: Iterable[Iterable[bytes]]) -> StringKeys:
    """Constants inserted group by group; relabelled where a gap ran out."""
    keys = StringKeys()
    for group in groups:
        together = list(group)
        if not keys.insert(together):
            keys = keys.relabelled(together)
        keys.check()
    return keys


def key_by_definition(keys: StringKeys, value: bytes) -> int:
    ordered = keys.constants()
    below = ordered[bisect_right(ordered, value) - 1]
    return keys.of_constant(below) + (below != value)


# --- order -----------------------------------------------------------------------------------------------------------


@given(st.lists(constants, max_size=5), st.lists(texts | alike, max_size=20))
@example([[b"a" * 10_000, b"a" * 10_000 + b"\0", b"\xff" * 300]], [b"a" * 10_001, b"\xff" * 299, b"\xff" * 301])
def test_order_is_exact_against_every_constant(groups: list[list[bytes]], values: list[bytes]) -> None:
    keys = made(groups)
    assert set(keys.constants()) == {b"", *(c for group in groups for c in group)}
    for value in values:
        key = keys.of_value(value)
        assert key == key_by_definition(keys, value)
        for constant in keys.constants():
            own = keys.of_constant(constant)
            assert (key > own) - (key < own) == (value > constant) - (value < constant)


def test_strings_between_two_constants_share_a_key() -> None:
    keys = made([[b"b", b"d"]])
    assert keys.of_value(b"c") == keys.of_value(b"ca") == keys.of_constant(b"b") + 1
    assert keys.of_value(b"") == LEAST
    assert keys.of_value(b"\0") == LEAST + 1
    assert b"b" in keys
    assert b"c" not in keys


def test_a_constant_twice_is_one() -> None:
    keys = made([[b"x", b"x"], [b"x"]])
    assert len(keys) == 2


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_the_successor_ends_the_prefix(prefix: bytes, text: bytes) -> None:
    end = successor(prefix)
    assert text.startswith(prefix) == (prefix <= text and (end is None or text < end))


@given(st.binary(max_size=8), st.binary(max_size=8), st.binary(max_size=8))
def test_shared_prefixes(prefix: bytes, a: bytes, b: bytes) -> None:
    left, right = prefix + a, prefix + b
    wanted = next((i for i, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), min(len(left), len(right)))
    assert _shared_prefix(left, right) == wanted


# --- room ------------------------------------------------------------------------------------------------------------


def relabels(groups: Iterable[Iterable[bytes]]) -> tuple[StringKeys, list[int]]:
    """The keys, and before which groups they had to be relabelled."""
    keys, when = StringKeys(), []
    for i, group in enumerate(groups):
        together = list(group)
        if not keys.insert(together):
            keys = keys.relabelled(together)
            when.append(i)
    keys.check()
    return keys, when


NUMBERED = [b"%08d" % i for i in range(100_000)]
WORDS = [w.to_bytes(4, "big") for w in range(0, 2**32, 2**32 // 20_000)]  # neighbours share little


@pytest.mark.parametrize(
    "ordered",
    [NUMBERED[:20_000], WORDS, pytest.param(NUMBERED, marks=pytest.mark.slow)],
    ids=["numbered", "spread", "many"],
)
@pytest.mark.parametrize("step", [1, -1], ids=["ascending", "descending"])
def test_ordered_inserts_need_no_relabelling(ordered: list[bytes], step: int) -> None:
    _, when = relabels([c] for c in ordered[::step])
    assert when == []


@pytest.mark.parametrize("step", [1, -1], ids=["ascending", "descending"])
def test_ordered_batches_need_no_relabelling(step: int) -> None:
    ordered = NUMBERED[::step]
    _, when = relabels(ordered[i : i + 1000] for i in range(0, len(ordered), 1000))
    assert when == []


def test_random_inserts_rarely_need_relabelling() -> None:
    shuffled = NUMBERED[:50_000]
    Random(1).shuffle(shuffled)
    _, when = relabels([c] for c in shuffled)
    assert len(when) <= 40


def test_runs_in_the_middle_need_little_relabelling() -> None:
    """Many ascending series at once, as from many sources with a prefix each."""
    series = [[b"%c-%06d" % (letter, i)] for i in range(2000) for letter in b"kbxmaqz"]
    _, when = relabels(series)
    assert len(when) <= 30


def test_the_worst_order_relabels_after_some_thirty_inserts() -> None:
    """Always between the last two, turning around each time, so that every insert halves a gap."""

    def halving(count: int) -> list[bytes]:
        low, high = b"m", b"n"
        made = [low, high]
        for i in range(count):
            middle = low + b"\x80" if not high.startswith(low) else high[:-1] + bytes([high[-1] - 1, 0x80])
            made.append(middle)
            low, high = (middle, high) if i % 2 else (low, middle)
        return made

    order = halving(100)
    assert len(set(order)) == len(order)
    keys, when = relabels([c] for c in order)
    assert 2 <= len(when) <= 4
    assert all(b - a >= 25 for a, b in zip([0, *when], when, strict=False))
    for constant in order:
        assert keys.of_value(constant) == keys.of_constant(constant)


def test_a_full_gap_refuses_and_changes_nothing() -> None:
    keys = StringKeys.from_items([b"", b"a", b"b"], [LEAST, 0, 3])
    keys.check()
    before = keys.items()
    assert not keys.insert([b"c", b"aa"])
    assert keys.constants() == before[0]
    assert keys.insert([b"c"])
    assert not StringKeys.from_items([b"", b"a"], [LEAST, GREATEST - 1]).insert([b"b"])


@given(st.lists(st.integers(2, 9), min_size=1, max_size=12), constants)
def test_tiny_gaps_stay_exact(gaps: list[int], more: list[bytes]) -> None:
    """Keys packed at the top of the domain, where there is hardly any room."""
    own = [b"", *(bytes([97 + i]) for i in range(len(gaps)))]
    numbers = [LEAST, *(GREATEST - 1 - sum(gaps[i + 1 :]) for i in range(len(gaps)))]
    keys = StringKeys.from_items(own, numbers)
    keys.check()
    for constant in more:
        if not keys.insert([constant]):
            old, keys = keys, keys.relabelled([constant])
            bounds = old.items()[1]
            assert keys.items()[1][[keys.constants().index(c) for c in old.constants()]].tolist() == (
                old.translated(bounds, keys, 1).tolist()
            )
        keys.check()


# --- new keys for old bounds -----------------------------------------------------------------------------------------


def bounds_of(keys: StringKeys) -> tuple[I64, I64]:
    """Every lower and upper bound that a condition can have."""
    own = [keys.of_constant(c) for c in keys.constants()]
    return (
        np.array([LEAST, *own, *(k + 1 for k in own)], np.int64),
        np.array([GREATEST, *own, *(k - 1 for k in own if k > LEAST)], np.int64),
    )


@given(st.lists(constants, min_size=1, max_size=3), constants, st.lists(texts | alike, max_size=15))
@example([[b"a"]], [b"b"], [b"aa", b"z"])
def test_translated_bounds_keep_their_meaning(
    groups: list[list[bytes]], more: list[bytes], values: list[bytes]
) -> None:
    old = made(groups)
    new = old.relabelled(more)
    new.check()
    low, high = bounds_of(old)
    new_low, new_high = old.translated(low, new, 1), old.translated(high, new, -1)
    for value in [*values, *more, *old.constants()]:
        before, after = old.of_value(value), new.of_value(value)
        assert (low <= before).tolist() == (new_low <= after).tolist()
        assert (before <= high).tolist() == (after <= new_high).tolist()


def test_a_bound_above_the_last_constant_is_not_taken_for_none() -> None:
    """`s > 'z'` begins at the greatest key of all when 'z' has the one below."""
    old = StringKeys.from_items([b"", b"z"], [LEAST, GREATEST - 1])
    old.check()
    new = old.relabelled()
    moved = old.translated(np.array([GREATEST], np.int64), new, 1)
    assert moved.tolist() == [new.of_constant(b"z") + 1] == [new.of_value(b"zz")]


@given(constants, st.data())
def test_used_constants_are_those_that_bounds_touch(own: list[bytes], data: st.DataObject) -> None:
    keys = made([own])
    chosen = data.draw(st.lists(st.sampled_from(keys.constants())))
    sides = [data.draw(st.sampled_from((-1, 0, 1))) for _ in chosen]
    bounds = [max(keys.of_constant(c) + d, LEAST) for c, d in zip(chosen, sides, strict=True)]
    used = keys.used_by(np.array([*bounds, LEAST, GREATEST], np.int64))
    assert {b"", *chosen} <= set(used)
    assert used == sorted(used)
    near = {k for b in bounds for k in (b - 1, b, b + 1)} | {LEAST}
    assert set(used) == {c for c in keys.constants() if keys.of_constant(c) in near}


@given(constants)
def test_items_come_back(own: list[bytes]) -> None:
    keys = made([own])
    texts_, numbers = keys.items()
    back = StringKeys.from_items(texts_, numbers.tolist())
    back.check()
    assert [back.of_constant(c) for c in texts_] == numbers.tolist()


@pytest.mark.parametrize(
    ("own", "numbers"),
    [
        ([], []),
        ([b"a"], [LEAST]),
        ([b""], [0]),
        ([b"", b"b", b"a"], [LEAST, 0, 10]),
        ([b"", b"a", b"a"], [LEAST, 0, 10]),
        ([b"", b"a", b"b"], [LEAST, 10, 0]),
        ([b"", b"a", b"b"], [LEAST, 0, 1]),
        ([b"", b"a"], [LEAST, GREATEST]),
        ([b"", b"a"], [LEAST, LEAST + 1]),
    ],
)
def test_broken_keys_are_noticed(own: list[bytes], numbers: list[int]) -> None:
    with pytest.raises(AssertionError):
        StringKeys.from_items(own, numbers).check()


# --- readers beside a writer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 100], ids=["one by one", "batches"])
def test_readers_see_right_keys_while_a_writer_inserts(size: int) -> None:
    """A look-up that began before an insert may miss the new constant, but is always right about the old ones."""
    keys = made([[b"%05d" % i for i in range(0, 10_000, 10)]])
    fixed = {c: keys.of_constant(c) for c in keys.constants()}
    more = [b"%05d" % i for i in range(10_000) if i % 10]
    Random(2).shuffle(more)
    done: list[bool] = []
    wrong: list[object] = []

    def read(seed: int) -> None:
        random = Random(seed)
        while not done:
            i = random.randrange(10_000)
            value = b"%05d" % i
            key = keys.of_value(value)
            below = b"%05d" % (i - i % 10)
            above = fixed.get(b"%05d" % (i - i % 10 + 10), GREATEST)
            if key != fixed[below] if value == below else not fixed[below] < key < above:
                wrong.append((value, key))

    readers = [Thread(target=read, args=(seed,)) for seed in range(3)]
    for reader in readers:
        reader.start()
    try:
        assert all(keys.insert(more[i : i + size]) for i in range(0, len(more), size))
    finally:
        done.append(True)
        for reader in readers:
            reader.join()
    assert wrong == []
    keys.check()
