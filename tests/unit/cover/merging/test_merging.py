"""Merging: never a miss, perfect merges that are perfect, conditions that can be read again, budgets that are kept."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.book import Book, accepted, as_event, entry, rows
from tests.oracle.generate import SCHEMA
from tests.unit.cover.worlds import World, events_of

from earmark import Matcher
from earmark.cover.canonical import canonical
from earmark.cover.merging.merge import Merged, merge
from earmark.cover.merging.unite import around, marginals, masses
from earmark.cover.written import ConditionWriter
from earmark.errors import EarmarkError
from earmark.events.frames import encode_many
from earmark.segment.arrays import SegmentArrays

EVERYTHING = 1e9
"""A budget that permits all."""


def clause_bits(table: SegmentArrays, slot: int) -> int:
    """The events of the small worlds that a box takes."""
    clause = {}
    for c in range(table.constraint_start[slot], table.constraint_start[slot + 1]):
        first, last = table.interval_start[c], table.interval_start[c + 1]
        pairs = tuple(zip(table.lo[first:last].tolist(), table.hi[first:last].tolist(), strict=True))
        clause[int(table.attr[c])] = pairs, bool(table.accepts_null[c])
    return events_of(clause)


@given(seed=st.integers(0, 2**32), pieces=st.sampled_from((1, 2, 3, 16)))
def test_the_box_around_two(seed: int, pieces: int) -> None:
    made = World(Random(seed))
    for _ in range(12):
        made.add([made.clause()])
    table = made.table()
    single = np.flatnonzero(np.diff(table.clause_start) == 1)
    a, b = single[:-1], single[1:]
    clause = table.clause_start[:-1].astype(np.int64)
    boxes, perfect = around(table, clause[a], clause[b], pieces)
    for i, (one, other) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        both = made.bits[one][0] | made.bits[other][0]
        found = clause_bits(boxes, i)
        assert found & both == both
        if perfect[i]:
            assert found == both
        elif pieces == 16:
            assert found != both
    widths = np.diff(boxes.interval_start)
    assert (boxes.lo <= boxes.hi).all() and widths.max(initial=0) <= max(
        pieces, np.diff(table.interval_start).max(initial=0)
    )


def test_masses_are_shares_of_events() -> None:
    """With one attribute there is nothing to be independent of: the mass is the share, but for the doubt."""
    m = Matcher()
    m.add("low", "x < 30")
    m.add("null", "x IS NULL OR x = 99")
    events = encode_many(m._version.whole.schema, [{"x": i} for i in range(90)] + [{}] * 10)
    table = canonical(m._version.whole)
    assert masses(table, marginals(events, 1)) == pytest.approx([0.3, 0.1], abs=0.01)


# --- conditions of all types -----------------------------------------------------------------------------------


def book_of(rng: Random, count: int) -> tuple[Matcher, Book]:
    matcher, book = Matcher(index="scan", attributes=SCHEMA), Book(order=list(SCHEMA))
    for i in range(count):
        made = entry(rng)
        if accepted(matcher, i, made):
            book.entries[i] = made
    return matcher, book


def check_never_a_miss(matcher: Matcher, result: Merged, events: list[dict[str, Any]]) -> None:
    """Every member of what matches has its group match; groups are a partition; extra traffic is told truly."""
    table = result.to_arrow()
    smaller = Matcher(index="scan", attributes=SCHEMA)
    smaller.add_many(table)
    group_of = {one: row["id"] for row in table.to_pylist() for one in row["stands_for"]}
    never = set(result.never)
    assert sorted(group_of) == sorted(set(matcher.ids()) - never)
    assert sum(len(row["stands_for"]) for row in table.to_pylist()) == len(group_of)
    for event in events:
        wanted = matcher.match(event)
        assert not never & set(wanted)
        assert {group_of[one] for one in wanted} <= set(smaller.match(event))


@given(seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=max(1, settings.default.max_examples // 6))
def test_never_a_miss_whatever_is_asked(seed: int) -> None:
    rng = Random(seed)
    matcher, book = book_of(rng, 30)
    sample = [as_event(row) for row in rows(rng, book, 60)]
    result = merge(matcher, sample, rng.choice((0.0, 0.5, EVERYTHING)), pieces=rng.choice((1, 3, 16)))
    check_never_a_miss(matcher, result, [as_event(row) for row in rows(rng, book, 40)] + sample)


@given(seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=max(1, settings.default.max_examples // 6))
def test_written_conditions_are_the_boxes(seed: int) -> None:
    """A clause, written out from its canonical keys, matches what it matched."""
    rng = Random(seed)
    matcher, book = book_of(rng, 12)
    view = matcher._version.whole
    table, writer = canonical(view), ConditionWriter(view.schema)
    again = Matcher(index="scan", attributes=SCHEMA)
    for slot in range(len(view)):
        clauses = range(table.clause_start[slot], table.clause_start[slot + 1])
        texts = [f"({writer.condition(table, clause)})" for clause in clauses]  # by clause, as boxes are
        again.add(view.ids[slot], " OR ".join(texts) or "FALSE")
    for row in rows(rng, book, 60):
        event = as_event(row)
        assert again.match(event) == matcher.match(event), event


# --- budgets -----------------------------------------------------------------------------------------------------


def squares(count: int, seed: int = 1) -> tuple[Matcher, pa.Table]:
    """Small squares in clusters, and points."""
    rng = np.random.default_rng(seed)
    centre = rng.integers(0, 900, (12, 2))
    corner = centre[rng.integers(0, 12, count)] + rng.integers(0, 60, (count, 2))
    m = Matcher(index="scan", attributes={"x": "integer", "y": "integer"})
    m.add_many(
        pa.table(
            {
                "id": np.arange(count),
                **{f"{n}_lo": corner[:, i] for i, n in enumerate("xy")},
                **{f"{n}_hi": corner[:, i] + 9 for i, n in enumerate("xy")},
            }
        )
    )
    points = rng.integers(0, 1_000, (20_000, 2))
    return m, pa.table({"x": points[:, 0], "y": points[:, 1]})


def test_a_budget_is_kept_and_more_buys_more() -> None:
    m, events = squares(600)
    sizes = []
    for budget in (0.0, 0.02, 0.2, 2.0):
        found = merge(m, events, budget)
        sizes.append(len(found))
        assert found.decided.share <= budget
        assert found.held_back.share <= 1.3 * budget  # events that nobody chose by
        assert found.held_back.events == 10_000
        if budget == 0:
            assert found.held_back.extra == 0
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < 60 < sizes[0]


def test_what_is_reported_is_what_happens() -> None:
    """The held-back half, matched through the written conditions, gives the reported counts."""
    m, events = squares(300, seed=2)
    found = merge(m, events, 0.1, seed=5)
    smaller = Matcher(index="scan")
    smaller.add_many(found.to_arrow())
    order = np.random.default_rng(5).permutation(len(events))[len(events) // 2 :]
    held = events.take(np.sort(order))
    wanted = set(m.match_many(held).column("event").to_pylist())
    sent = set(smaller.match_many(held).column("event").to_pylist())
    assert wanted <= sent
    assert (len(wanted), len(sent) - len(wanted)) == (found.held_back.wanted, found.held_back.extra)
    assert found.held_back.false_positives == pytest.approx((len(sent) - len(wanted)) / len(sent))


def test_too_small_a_sample_permits_perfect_merges_alone() -> None:
    m = Matcher(attributes=dict.fromkeys("xyz", "integer"))
    m.add("a", "x BETWEEN 0 AND 4 AND y = 1")
    m.add("b", "x BETWEEN 5 AND 9 AND y = 1")
    m.add("c", "x BETWEEN 20 AND 24 AND y = 1")
    m.add("d", "x = 3 AND y = 1 AND z = 2")
    m.add("e", "x = 100 AND y = 7")
    found = merge(m, [{"x": 3, "y": 1}] * 8, 0.02)
    assert list(found.rows()) == [
        ("a", "(x BETWEEN 0 AND 9 OR x BETWEEN 20 AND 24) AND y = 1", ["a", "b", "c", "d"]),
        ("e", "x = 100 AND y = 7", ["e"]),
    ]
    assert (found.before, len(found)) == (5, 2)


def test_texts_make_lists_and_several_clauses_stay() -> None:
    m = Matcher()
    m.add("oslo", "city = 'Oslo'")
    m.add("either", "city = 'Rome' OR age > 3")
    m.add("rome", "city = 'Rome'")
    m.add("lima", "city = 'Lima' OR city IS NULL")
    m.add("never", "age > 3 AND age < 3")
    found = merge(m, [], 0.0)
    assert list(found.rows()) == [
        ("oslo", "(city IN ('Lima', 'Oslo') OR city IS NULL)", ["oslo", "lima"]),
        ("either", "city = 'Rome' OR age > 3", ["either", "rome"]),
    ]
    assert found.never == ("never",)


def test_what_was_removed_plays_no_part() -> None:
    m = Matcher(attributes={"x": "integer"})
    m.add_many([(f"s{i}", f"x BETWEEN {i} AND {i + 1}") for i in range(0, 40, 2)])
    m.remove_many([f"s{i}" for i in range(20, 40, 2)])
    m.update("s4", "x = 100")
    assert list(merge(m, [], 0.0).rows()) == [
        ("s0", "(x = 100 OR x BETWEEN 0 AND 3 OR x BETWEEN 6 AND 19)", [f"s{i}" for i in range(0, 20, 2)])
    ]


@pytest.mark.parametrize("budget", [-0.1, float("nan"), float("inf")])
def test_no_budget(budget: float) -> None:
    with pytest.raises(EarmarkError, match="expected a share of extra traffic as budget"):
        merge(Matcher(), [], budget)


def test_nothing_to_merge() -> None:
    found = merge(Matcher(), [{"x": 1}], 0.5)
    assert (len(found), found.before, found.to_arrow().num_rows) == (0, 0, 0)
    m = Matcher()
    m.add("all", "TRUE")
    m.add("some", "x = 1")
    assert list(merge(m, [{"x": 1}] * 40, 0.5).rows()) == [("all", "TRUE", ["all", "some"])]
