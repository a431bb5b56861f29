"""One contract, every index: random tables and events, inserts, removes and updates in between, against the oracle.

An index that `earmark.index.names()` lists is tested here; there is nothing to add. How much waits in the scanned tail
before the index itself takes it in varies: nothing, so that it follows every change, a little, or all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract import book as books
from tests.contract.book import Book, accepted, as_event, assert_agrees, rows
from tests.oracle import generate
from tests.oracle.syntax import to_sql

import earmark
from earmark import index as indexes
from earmark.engine import compaction, searcher
from earmark.events.choice import some_events
from earmark.events.frames import encode_many
from earmark.flat import bits
from earmark.index import answers, blocks, driver
from earmark.index.bitsets import BitsetIndex
from earmark.index.contract import Floor
from earmark.index.driver import ArrayIndex
from earmark.index.scan import Scan

every_index = pytest.mark.parametrize("index", indexes.names())
few = settings(max_examples=max(1, settings.default.max_examples // 10))
seeds = st.integers(0, 2**32)
SCHEMA = generate.WITH_NUMBERS


@pytest.fixture(autouse=True)
def tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a tail, unless a test says otherwise; and as if tables were large, for blocks and for plans."""
    monkeypatch.setattr(blocks, "SMALL", 0)
    books.plan_small_books(monkeypatch)
    monkeypatch.setattr(compaction, "SHORTEST_TAIL", 0)
    monkeypatch.setattr(compaction, "REBUILD_SHARE", 4.0)
    monkeypatch.setattr(compaction, "SHARE_AT_ONCE", compaction.SHARE_AT_ONCE)


def matcher_for(index: str) -> earmark.Matcher:
    """All types declared, but for the numbers, which are learned."""
    return earmark.Matcher(index, attributes=generate.SCHEMA)


def filled(index: str, rng: Random, count: int) -> tuple[earmark.Matcher, Book]:
    compaction.SHORTEST_TAIL = rng.choice((0, 0, 5, 1000))
    compaction.SHARE_AT_ONCE = 2.0 if compaction.SHORTEST_TAIL else 1 / 32
    matcher, book = matcher_for(index), Book()
    add_some(matcher, book, rng, count)
    return matcher, book


def add_some(matcher: earmark.Matcher, book: Book, rng: Random, count: int) -> None:
    """Half one by one, half as a batch."""
    first = 1 + max(book.entries, default=-1)
    batch = []
    for one in range(first, first + count):
        made = books.entry(rng, schema=SCHEMA)
        if one % 2:
            if accepted(matcher, one, made):
                book.entries[one] = made
        elif accepted(matcher_for("scan"), one, made):
            batch.append((one, made))
    assert matcher.add_many([{"id": one, **made.fields()} for one, made in batch]) == len(batch)
    book.entries.update(batch)


def remove_some(matcher: earmark.Matcher, book: Book, rng: Random) -> None:
    chosen = rng.sample(sorted(book.entries), len(book.entries) // 4)
    assert matcher.remove_many(chosen) == len(chosen)
    for one in chosen:
        del book.entries[one]


def update_some(matcher: earmark.Matcher, book: Book, rng: Random) -> None:
    for one in rng.sample(sorted(book.entries), len(book.entries) // 4):
        made = books.entry(rng, schema=SCHEMA)
        if accepted(matcher_for("scan"), one, made):
            matcher.update(one, to_sql(made.node), weights=made.weights, score=made.score, tags=made.tags)
            book.entries[one] = made


def check(matcher: earmark.Matcher) -> None:
    matcher._version.check()
    matcher._compactor.wait()
    assert matcher.stats()["compaction_problem"] is None
    matcher._version.check()


@every_index
@few
@given(seed=seeds)
def test_a_lifetime(index: str, seed: int) -> None:
    rng = Random(seed)
    matcher, book = filled(index, rng, 30)
    assert_agrees(matcher, book, rows(rng, book, 6, SCHEMA), rng, SCHEMA)
    remove_some(matcher, book, rng)
    add_some(matcher, book, rng, 8)
    check(matcher)
    assert_agrees(matcher, book, rows(rng, book, 4, SCHEMA), rng, SCHEMA)
    update_some(matcher, book, rng)
    remove_some(matcher, book, rng)
    check(matcher)
    assert_agrees(matcher, book, rows(rng, book, 5, SCHEMA), rng, SCHEMA)
    matcher.compact()
    check(matcher)
    assert_agrees(matcher, book, rows(rng, book, 3, SCHEMA), rng, SCHEMA)


def searched(matcher: earmark.Matcher) -> Any:
    """What searches the one segment of a matcher."""
    (indexed,) = matcher._version.segments
    return indexed.searched_by(indexed.alive)


@every_index
def test_empty(index: str) -> None:
    rng = Random(index)
    matcher, book = matcher_for(index), Book()
    assert_agrees(matcher, book, rows(rng, book, 5, SCHEMA), rng, SCHEMA)
    assert matcher.match_many([]).num_rows == 0
    assert matcher.top_k_many([], 3).num_rows == 0
    matcher.add(1, "TRUE")
    assert matcher.match_many([]).num_rows == 0
    assert matcher.match({}) == [1]
    matcher.remove(1)
    assert_agrees(matcher, book, rows(rng, book, 5, SCHEMA), rng, SCHEMA)
    check(matcher)


@every_index
def test_conditions_without_attributes(index: str) -> None:
    matcher = matcher_for(index)
    matcher.add_many([("never", "FALSE"), ("always", "TRUE"), ("either", "i0 > 3 OR TRUE"), ("unknown", "i0 = NULL")])
    assert matcher.match({}) == matcher.match({"i0": 9}) == ["always", "either"]
    assert [tuple(m) for m in matcher.top_k({"i0": 9}, mode="relaxed")] == [("either", 1.0), ("always", 0.0)]
    assert matcher.top_k({}, mode="relaxed") == matcher.top_k({}) == [("always", 0.0), ("either", 0.0)]
    check(matcher)


@every_index
def test_ties_go_by_insertion(index: str) -> None:
    """Also after updates, which move a subscription to another slot."""
    matcher = matcher_for(index)
    ids = [f"s{i}" for i in Random(7).sample(range(200), 200)]
    matcher.add_many([(one, "i0 > 3" if i % 2 else "i0 > 3 AND i0 < 99 OR i0 = 4") for i, one in enumerate(ids)])
    for one in ids[::3]:
        matcher.update(one, score=0.0)
    event = {"i0": 5}
    assert matcher.match(event) == ids
    for k in (1, 7, 199, 200, 10**9):
        for mode in ("exact", "relaxed"):
            assert [m.id for m in matcher.top_k(event, k, mode=mode)] == ids[:k]
    assert matcher.match_many([event, {}, event])["subscription"].to_pylist() == ids * 2
    matcher.update(ids[0], "i0 > 4", score=-1.0)
    assert [m.id for m in matcher.top_k(event, 200)] == [*ids[1:], ids[0]]
    assert matcher.match(event) == ids
    check(matcher)


@every_index
def test_long_lists_and_many_clauses(index: str) -> None:
    rng = Random(11)
    matcher = earmark.Matcher(index)
    wanted = {}
    for one in range(60):
        chosen = sorted(rng.sample(range(400), 90))
        wanted[one] = set(chosen)
        matcher.add(
            one, f"a IN ({', '.join(map(str, chosen))})" if one % 2 else " OR ".join(f"a = {c}" for c in chosen)
        )
    events = [{"a": value} for value in range(400)]
    found = matcher.match_many(events)
    pairs = list(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True))
    assert pairs == [(value, one) for value in range(400) for one in wanted if value in wanted[one]]
    assert matcher.match({"a": earmark.Interval(0, 399)}) == list(wanted)
    assert matcher.verify(events).ok


@every_index
def test_more_than_one_block_of_everything(index: str) -> None:
    """Past every block size in sight: thousands of slots, more events than vector lanes, scattered removals."""
    rng = np.random.default_rng(3)
    slots, events = 5_000, 700
    low = rng.integers(0, 1000, slots)
    high = low + rng.integers(0, 40, slots)
    import pyarrow as pa

    matcher = earmark.Matcher(index)
    matcher.add_many(pa.table({"id": np.arange(slots), "a_lo": low, "a_hi": high}))
    gone = rng.choice(slots, 900, replace=False)
    matcher.remove_many(gone.tolist())
    alive = np.ones(slots, bool)
    alive[gone] = False
    values = rng.integers(-5, 1050, events)
    inside = (low <= values[:, None]) & (values[:, None] <= high) & alive
    found = matcher.match_many(pa.table({"a": values}))
    expected_events, expected_ids = np.nonzero(inside)
    assert found["event"].to_numpy().tolist() == expected_events.tolist()
    assert found["subscription"].to_numpy().tolist() == expected_ids.tolist()
    best = matcher.top_k_many(pa.table({"a": values}), 2)
    assert best["subscription"].to_pylist() == [i for row in inside for i in np.flatnonzero(row)[:2]]
    check(matcher)


@every_index
def test_an_answer_never_has_what_is_not_eligible(index: str) -> None:
    """The index itself, by slots: the empty bitmap, one slot, and slots past the end of the bitmap."""
    matcher = earmark.Matcher(index)
    matcher.add_many([(i, "a > 0") for i in range(130)])
    built = searched(matcher)
    events = encode_many(matcher._version.schema, [{"a": 1}])
    nothing = np.zeros(3, np.uint64)
    assert built.match(events, nothing).tolist() == []
    one = nothing.copy()
    one[1] = 1 << 5
    assert built.match(events, one).tolist() == [69]
    short = np.full(1, 2**64 - 1, np.uint64)
    assert built.match(events, short).tolist() == list(range(64))
    assert built.top_k(events, 500, short)[0].tolist() == list(range(64))
    assert built.top_k(events, 500, nothing)[0].tolist() == []


@every_index
def test_shape(index: str) -> None:
    """Every index has arrays and a size, and counts its work."""
    matcher = earmark.Matcher(index)
    matcher.add_many([(i, f"a > {i}") for i in range(100)])
    built = searched(matcher)
    assert isinstance(built, ArrayIndex)
    assert all(isinstance(array, np.ndarray) and not array.flags.writeable for array in built.arrays)
    assert built.nbytes >= 0
    matcher.match({"a": 50})
    assert built.work.matched == 50


@every_index
@few
@given(seed=seeds)
def test_only_what_is_better_than_a_floor(index: str, seed: int) -> None:
    """Floors as of other segments: some below every answer, some above, some at an answer's own score and sequence."""
    rng = Random(seed)
    matcher, book = filled(index, rng, 40)
    matcher.compact()
    view, main = matcher._version.whole, searched(matcher)
    events = encode_many(
        matcher._version.whole.schema, [as_event(row) for row in rows(rng, book, rng.choice((3, 20, 140)), SCHEMA)]
    )
    count, k, relaxed = len(events.start) - 1, rng.choice((1, 3, 100)), rng.random() < 0.5
    eligible = bits.all_set(len(view))
    pointers, slots, scores = Scan(view.arrays).top_k_many(events, 10**6, eligible, relaxed)
    floor = Floor(np.full(count, -np.inf), np.zeros(count, np.int64))
    for e in range(count):
        if rng.random() < 0.2:
            continue
        own = rng.choice(scores[pointers[e] : pointers[e + 1]].tolist() or [0.0])
        floor.score[e] = own + rng.choice((0.0, 0.0, -1e-9, 0.5, 1e12))
        floor.sequence[e] = rng.choice(view.arrays.sequence.tolist()) + rng.choice((0, 0, 1))
    wanted = []
    for e in range(count):
        ranked = range(pointers[e], pointers[e + 1])
        better = [
            (int(slots[i]), float(scores[i]))
            for i in ranked
            if (-scores[i], view.arrays.sequence[slots[i]]) < (-floor.score[e], floor.sequence[e])
        ]
        wanted.append(better[:k])
    got_pointers, got_slots, got_scores = main.top_k_many(events, k, eligible, relaxed, floor)
    got = list(zip(got_slots.tolist(), got_scores.tolist(), strict=True))
    assert [got[a:b] for a, b in pairwise(got_pointers)] == wanted


@every_index
def test_an_updatable_index_follows_its_table(index: str) -> None:
    matcher = earmark.Matcher(index)
    matcher.add_many([(i, f"a > {i}") for i in range(100)])
    original = searched(matcher)
    if not original.is_updatable:
        pytest.skip(f"{index} is rebuilt instead")
    built = original.copy()
    matcher.add_many([(i, f"a < {i}") for i in range(100, 164)])
    view = matcher._version.whole
    built.insert(view.arrays, np.arange(100, 164, dtype=np.int32))
    built.remove(np.arange(10, dtype=np.int32))
    eligible = np.array([2**64 - 1 - 1023, 2**64 - 1, 2**64 - 1], np.uint64)
    events = encode_many(matcher._version.schema, [{"a": 50}])
    assert built.match(events, eligible).tolist() == [*range(10, 50), *range(100, 164)]
    built.check()
    assert original.match(events, eligible).tolist() == [*range(10, 50)]
    original.check()


@every_index
def test_an_index_comes_back_from_its_arrays(index: str) -> None:
    rng = Random(23)
    matcher, book = filled(index, rng, 60)
    matcher.compact()
    view, main = matcher._version.whole, searched(matcher)
    restored = indexes.restore(indexes.name_of(main), view.arrays, indexes.stored(main))
    restored.check()
    assert restored.nbytes == main.nbytes
    events = encode_many(view.schema, [as_event(row) for row in rows(rng, book, 20, SCHEMA)])
    for got, wanted in zip(
        restored.match_many(events, bits.all_set(len(view))),
        main.match_many(events, bits.all_set(len(view))),
        strict=True,
    ):
        assert got.tolist() == wanted.tolist()
    if restored.is_updatable:
        changed = restored.copy()
        changed.remove(np.arange(len(view), dtype=np.int32))
        changed.check()
        restored.check()


@every_index
def test_a_tail_answers_as_the_index_does(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tail that is never taken in, searched beside the index in every way there is."""
    rng = Random(5)
    matcher, book = filled(index, rng, 40)
    matcher.compact()
    monkeypatch.setattr(compaction, "SHORTEST_TAIL", 1000)
    add_some(matcher, book, rng, 20)
    update_some(matcher, book, rng)
    assert index == "scan" or matcher.stats()["index_tail"] > 20
    for _ in range(3):
        assert_agrees(matcher, book, rows(rng, book, 6, SCHEMA), rng, SCHEMA)
    check(matcher)


@every_index
@few
@given(seed=seeds)
def test_event_by_event_or_in_a_batch(index: str, seed: int) -> None:
    """Batches of every size around the lanes of a vector answer as their events do."""
    rng = Random(seed)
    matcher, book = filled(index, rng, 12)
    events = [as_event(row) for row in rows(rng, book, 5, SCHEMA)] * 130
    size = rng.choice((1, 63, 64, 65, 511, 512, 513, 650))
    found = matcher.match_many(events[:size])
    singles = [(e, one) for e in range(size) for one in matcher.match(events[e])]
    assert list(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True)) == singles


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several groups of events and several runs of answers, however few there are."""
    monkeypatch.setattr(driver, "TASTED", 1)
    monkeypatch.setattr(driver, "WORTHWHILE", 0.0)
    monkeypatch.setattr(driver, "FEW_SLOTS", 0)
    monkeypatch.setattr(driver, "MANY_EVENTS", 100)
    monkeypatch.setattr(answers, "MOVED_APIECE", 1)
    monkeypatch.setattr(searcher, "_NAMED_APIECE", 1)
    monkeypatch.setattr(Scan, "_lanes", 16)
    monkeypatch.setattr(BitsetIndex, "_lanes", 16)
    monkeypatch.setattr(driver, "FEW_LANES", 3)
    monkeypatch.setattr(driver, "MATCHED_AT_ONCE", 16)


@every_index
@pytest.mark.usefixtures("small_groups")
def test_answers_and_work_are_those_of_one_thread(index: str) -> None:
    rng = Random(37)
    matcher, book = filled(index, rng, 60)
    matcher.compact()
    main, eligible = searched(matcher), bits.all_set(len(matcher))
    events = encode_many(matcher._version.whole.schema, [as_event(row) for row in rows(rng, book, 140, SCHEMA)])
    floor = Floor(rng_floats(rng, 140), np.full(140, 30))

    def answers(threads: int) -> Iterator[Any]:
        for count in (0, 1, 5, 140):
            some = some_events(events, np.arange(count))
            first = Floor(floor.score[:count], floor.sequence[:count])
            yield main.match_many(some, eligible, threads=threads), main.work
            for relaxed in (False, True):
                yield main.top_k_many(some, 3, eligible, relaxed, threads=threads), main.work
                yield main.top_k_many(some, 3, eligible, relaxed, first, threads), main.work

    wanted = list(answers(1))
    for threads in (2, 3):
        for (got, work), (right, right_work) in zip(answers(threads), wanted, strict=True):
            assert [column.tolist() for column in got] == [column.tolist() for column in right]
            assert [column.dtype for column in got] == [column.dtype for column in right]
            assert work == right_work


def rng_floats(rng: Random, count: int) -> np.ndarray:
    """Floors: none, low ones and high ones."""
    return np.array([rng.choice((-np.inf, 0.5, 2.0, 1e9)) for _ in range(count)])


@every_index
@few
@given(seed=seeds, threads=st.integers(2, 5))
@pytest.mark.usefixtures("small_groups")
def test_a_book_answers_on_several_threads(index: str, seed: int, threads: int) -> None:
    """Of one segment or two, some of it removed."""
    rng = Random(seed)
    matcher, book = filled(index, rng, 40)
    if rng.random() < 0.5:
        matcher.compact()
        add_some(matcher, book, rng, 10)
    remove_some(matcher, book, rng)
    events = [as_event(row) for row in rows(rng, book, rng.choice((1, 9, 70)), SCHEMA)]
    searches: list[Callable[..., Any]] = [
        partial(matcher.match_many, events),
        partial(matcher.match_many, events, scores=False),
        partial(matcher.top_k_many, events, 3),
        partial(matcher.top_k_many, events, 3, mode="relaxed"),
        lambda threads: matcher.match_reader(iter(events), threads=threads).read_all(),
        lambda threads: matcher.top_k_reader(iter(events), 2, threads=threads).read_all(),
    ]
    for search in searches:
        assert search(threads=threads).to_pydict() == search(threads=1).to_pydict()


@every_index
def test_threads_share_an_index(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches keep nothing that another search, at the same time, could change under them."""
    rng = Random(31)
    matcher, book = filled(index, rng, 50)
    matcher.compact()
    events = [as_event(row) for row in rows(rng, book, 40, SCHEMA)]
    searches: list[Callable[[], Any]] = [
        lambda: matcher.match_many(events).to_pydict(),
        lambda: matcher.top_k_many(events, 3).to_pydict(),
        lambda: matcher.top_k_many(events, 3, mode="relaxed").to_pydict(),
        lambda: [matcher.match(event) for event in events[:10]],
        lambda: [matcher.top_k(event, 2) for event in events[:10]],
    ]
    wanted = [search() for search in searches]
    monkeypatch.setattr(driver, "WORTHWHILE", 0.0)  # each has helpers, too
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda i: searches[i % len(searches)](), range(40)))
    for i, answer in enumerate(got):
        assert answer == wanted[i % len(searches)]
