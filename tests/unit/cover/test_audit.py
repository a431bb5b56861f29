"""Rule hygiene against every event of small worlds, and as users see it."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest

from earmark import Matcher
from earmark.cover.audit import Audit, Covered, NeverClause, audit
from earmark.cover.cover_index import CoverIndex
from earmark.flat.bits import from_slots
from earmark.segment.segment import Segment
from earmark.workload.rectangles import boxes

from .worlds import FULL, TYPES, Clause, World, world


def sql(clauses: list[Clause]) -> str:
    """A condition with exactly these clauses."""
    names = list(TYPES)

    def constraint(attr: int, intervals: tuple[tuple[int, int], ...], null: bool) -> str:
        name = names[attr]
        parts = [f"{name} IS NULL"] if null else []
        for lo, hi in intervals:
            if attr < 2:
                parts.append(f"{name} BETWEEN {max(lo, -9)} AND {min(hi, 9)}")
            else:
                parts.append(f"{name} IN ({', '.join('TRUE' if v else 'FALSE' for v in (0, 1) if lo <= v <= hi)})")
        return f"({' OR '.join(parts)})" if parts else f"({name} IS NULL AND {name} IS NOT NULL)"

    made = [" AND ".join(constraint(a, *c) for a, c in sorted(clause.items())) or "TRUE" for clause in clauses]
    return " OR ".join(f"({text})" for text in made) or "FALSE"


def view_of(made: World) -> tuple[Segment, Matcher]:
    matcher = Matcher(attributes=TYPES)
    for slot in np.argsort(made.sequence).tolist():  # so that the order of insertion is the order of age
        matcher.add(slot, sql(made.clauses[slot]))
    return matcher._version.whole, matcher


@pytest.mark.parametrize("seed", range(20, 25))
def test_against_every_event(seed: int) -> None:
    made = world(seed, 70)
    view, _ = view_of(made)
    found = audit(view)
    age = sorted(range(70), key=made.sequence.__getitem__)
    union = [sum_of(made.bits[slot]) for slot in range(70)]
    never = [slot for slot in age if not union[slot]]
    assert list(found.never) == never
    rest = [slot for slot in age if union[slot]]
    groups: dict[int, list[int]] = {}
    for slot in rest:
        leader = next(other for other in rest if made.contains(other, slot) and made.contains(slot, other))
        groups.setdefault(leader, []).append(slot)
    assert [list(group) for group in found.duplicates] == [group for group in groups.values() if len(group) > 1]
    covered = [slot for slot in groups if made.covering(slot, set(groups))]
    assert [one.id for one in found.covered] == covered
    for one in found.covered:
        assert made.covers(int(one.by), int(one.id))
        assert one.by not in covered
    assert list(found.everything) == [slot for slot in rest if FULL in made.bits[slot]]
    left = set(range(70)) - set(found.redundant)
    assert len(found.redundant) == len(set(found.redundant)) == 70 - len(left)
    for slot in range(70):
        assert slot in left or not union[slot] or any(made.contains(other, slot) for other in left)


def sum_of(sets: list[int]) -> int:
    union = 0
    for one in sets:
        union |= one
    return union


def test_relations_of_one() -> None:
    made = world(31, 60)
    index = CoverIndex.of(view_of(made)[1])
    by_age = sorted(range(60), key=made.sequence.__getitem__)
    for slot in by_age:
        assert index.covering(slot) == [other for other in by_age if made.covers(other, slot)]
        assert index.covered(slot) == [other for other in by_age if made.covers(slot, other)]


def book() -> Matcher:
    matcher = Matcher(attributes={"x": "integer", "y": "integer"})
    matcher.add_many(
        [
            ("a", "x BETWEEN 0 AND 9"),
            ("b", "x >= 0 AND x < 10"),
            ("c", "x IN (3, 4)"),
            ("d", "x > 5 AND x < 3"),
            ("e", "x = 50 OR (y > 5 AND y < 3)"),
            ("f", "x BETWEEN 3 AND 4 AND s LIKE 'k%'"),
        ]
    )
    return matcher


WANTED = Audit(
    subscriptions=6,
    duplicates=(("a", "b"),),
    covered=(Covered("c", "a"), Covered("f", "a")),
    never=("d",),
    never_clauses=(NeverClause("e", 2, "y > 5 AND y < 3"),),
    everything=(),
)


def test_a_small_book() -> None:
    matcher = book()
    found = audit(matcher._version.whole)
    assert found == WANTED
    assert found.redundant == ("d", "b", "c", "f")
    assert not found.clean
    assert json.loads(json.dumps(found.to_dict()))["covered"] == [{"id": "c", "by": "a"}, {"id": "f", "by": "a"}]
    rows = found.to_arrow().to_pylist()
    assert rows[0] == {"finding": "duplicate", "subscription": "b", "other": "a", "clause": None, "text": None}
    assert rows[-1]["clause"] == 2
    assert [row["finding"] for row in rows] == ["duplicate", "covered", "covered", "never", "never clause"]
    assert str(found).splitlines()[0] == "6 subscriptions, 4 of them redundant"
    assert "'c' is covered by 'a'" in str(found)
    assert "… and 1 more" in found.report(1)


def test_the_removed_do_not_count() -> None:
    matcher = book()
    matcher.remove_many(["a", "d"])
    found = audit(matcher._version.whole)
    assert found.duplicates == ()
    assert found.covered == (Covered("c", "b"), Covered("f", "b"))
    assert found.never == ()
    matcher.update("c", "x = 1000")
    assert audit(matcher._version.whole).covered == (Covered("f", "b"),)


def test_an_update_keeps_its_age() -> None:
    matcher = Matcher()
    matcher.add_many([(1, "x > 3"), (2, "x > 7"), (3, "y = 1")])
    matcher.update(1, "x > 7")
    assert audit(matcher._version.whole).duplicates == ((1, 2),)
    assert matcher.covered(1) == [2]
    assert matcher.covered_by(1) == []


def test_part_of_the_subscriptions() -> None:
    matcher = book()
    view = matcher._version.whole
    found = audit(view, from_slots(np.array([1, 2, 4]), 6))
    assert found.subscriptions == 3
    assert found.covered == (Covered("c", "b"),)
    assert len(found.never_clauses) == 1


def test_nothing_to_find() -> None:
    assert audit(Matcher()._version.whole) == Audit(0, (), (), (), (), ())
    matcher = Matcher()
    matcher.add(7, "x = 1")
    found = audit(matcher._version.whole)
    assert found.clean
    assert str(found) == "1 subscription, 0 of them redundant"
    assert found.to_arrow().num_rows == 0
    assert found.to_dict()["redundant"] == []


def test_many_equal_ones() -> None:
    matcher = Matcher()
    matcher.add_many([(i, f"x = {i % 3} AND y > {i % 2}") for i in range(600)])
    found = audit(matcher._version.whole)
    assert [len(group) for group in found.duplicates] == [100] * 6
    assert [(one.id, one.by) for one in found.covered] == [(1, 4), (3, 0), (5, 2)]


def test_larger_against_pairs() -> None:
    lo, hi = boxes(1500, 3, 0.8, seed=2)
    rows = []
    for i, (a, b) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
        kept = Random(i).sample(range(3), Random(i).choice((1, 2, 3)))
        rows.append((i, " AND ".join(f"a{j} BETWEEN {a[j]} AND {b[j]}" for j in sorted(kept))))
    matcher = Matcher()
    matcher.add_many(rows)
    found = audit(matcher._version.whole)
    covered = {one.id for one in found.covered} | {one for group in found.duplicates for one in group[1:]}
    for slot in range(0, 1500, 13):
        assert bool(matcher.covered_by(slot)) == (slot in covered)
