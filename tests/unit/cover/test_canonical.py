"""One form for each condition: equal sets of events have equal arrays, and nothing else has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from earmark import Matcher
from earmark.cover.canonical import canonical, canonized, covers
from earmark.cover.indexes.members import Linear
from earmark.segment.arrays import check_arrays
from earmark.segment.segment import Segment

from .worlds import EVENTS, events_of, schema, world


def view_of(conditions: Sequence[str], **attributes: str) -> Segment:
    matcher = Matcher(attributes=attributes)
    matcher.add_many(list(enumerate(conditions)))
    return matcher._version.whole


def clauses_of(conditions: Sequence[str], **attributes: str) -> list[int]:
    return np.diff(canonical(view_of(conditions, **attributes)).clause_start).tolist()


@pytest.mark.parametrize("seed", range(6))
def test_every_event_is_taken_as_before(seed: int) -> None:
    made = world(seed, 60)
    table = made.table()
    check_arrays(table, 3)
    for slot in range(60):
        own = []
        for c in range(table.clause_start[slot], table.clause_start[slot + 1]):
            clause = {}
            for i in range(table.constraint_start[c], table.constraint_start[c + 1]):
                ends = range(table.interval_start[i], table.interval_start[i + 1])
                intervals = tuple((int(table.lo[j]), int(table.hi[j])) for j in ends)
                clause[int(table.attr[i])] = (intervals, bool(table.accepts_null[i]))
                assert intervals or table.accepts_null[i]
            own.append(events_of(clause))
        assert all(own)
        for a in own:  # none inside another
            assert sum(a & b == a for b in own) == 1
        wanted = made.bits[slot]
        assert set(own) <= set(wanted)
        assert all(any(part & whole == part for whole in own) for part in wanted)


def test_clauses_that_never_match() -> None:
    made = world(3, 100)
    never = canonized(made.arrays(), schema()).never
    assert never.tolist() == [events_of(clause) == 0 for clauses in made.clauses for clause in clauses]
    assert 0 < never.sum() < len(never)
    assert len(EVENTS) == 20 * 20 * 3


@pytest.mark.parametrize(
    ("conditions", "equal"),
    [
        (["i <= 4 OR i >= 5 OR i IS NULL", "TRUE"], True),
        (["i <= 4 OR i >= 5", "i IS NOT NULL"], True),
        (["i IN (1, 2, 3)", "i BETWEEN 1 AND 3"], True),
        (["i >= 18", "i > 17"], True),
        (["a >= 18", "a > 17"], False),
        (["a >= 18", "a > 17.999"], False),
        (["a <= 4 OR a >= 5", "a IS NOT NULL"], False),
        (["a <= 4 OR a > 4", "a IS NOT NULL"], True),
        (["a <= 4 OR a > 4 OR a IS NULL", "TRUE"], True),
        (["a >= 9007199254740993", "a > 9007199254740992"], True),
        (["a <= 9007199254740992 OR a >= 9007199254740993", "a IS NOT NULL"], True),
        (["a >= 9007199254740993", "a > 9007199254740991"], False),
        (["a IS NOT NULL", "TRUE"], False),
        (["a IS NULL", "a IS NULL AND NOT (a > 3)"], False),
        (["a IN (1, 2, 3)", "a BETWEEN 1 AND 3"], False),
        (["a = 1 OR (a = 1 AND b = 2)", "a = 1"], True),
        (["a > 3 AND a < 3", "FALSE"], True),
        (["NOT (a < 3)", "a >= 3"], True),
        (["a != 5", "a < 5 OR a > 5"], True),
        (["f > 1.5D", "f >= 1.5D"], False),
        (["b OR NOT b", "b IS NOT NULL"], True),
        (["s > 'a' AND s < 'a\0'", "FALSE"], True),
        (["s >= 'a\0'", "s > 'a'"], True),
        (["s < 'a\0'", "s <= 'a'"], True),
        (["s < 'a\0\0'", "s <= 'a'"], False),
        (["s LIKE 'п%'", "s >= 'п' AND s < 'р'"], True),
        (["s LIKE 'п%'", "s >= 'п' AND s <= 'р'"], False),
        (["s LIKE '\U0010ffff%'", "s >= '\U0010ffff'"], True),
        (["s LIKE 'a\x7f%'", "s >= 'a\x7f' AND s < 'a\x80'"], True),
        (["s LIKE '\ud7ff%'", "s >= '\ud7ff' AND s < '\ue000'"], True),
        (["s != 'x' OR s = 'x'", "s IS NOT NULL"], True),
        (["s >= ''", "s IS NOT NULL"], True),
    ],
)
def test_ways_to_say_it(conditions: list[str], equal: bool) -> None:
    types = {"i": "integer"} | ({"b": "boolean"} if "b OR" in conditions[0] else {})
    view = view_of([*conditions, "s = 'q' OR a = 1"], **types)
    table = canonical(view)
    assert bool(covers(table, 0, 1)) or not equal  # the older of two equals
    assert not covers(table, 1, 0) or not equal
    both = Linear.build(table, np.array([0, 1], np.int32))
    mutual = len(both.covering(1)) == 1 and Linear.build(table._replace(sequence=-table.sequence)).covers(1, 0)
    assert mutual == equal


def test_types_learned_later() -> None:
    """IS NOT NULL on an attribute of unknown type is the whole domain, whatever the type turns out to be."""
    matcher = Matcher()
    matcher.add("first", "flag IS NOT NULL")
    matcher.add("second", "flag")
    matcher.add("third", "flag OR NOT flag")
    table = canonical(matcher._version.whole)
    assert Linear.build(table).covering(1).tolist() == [0, 2]
    assert Linear.build(table).covering(2).tolist() == [0]
    assert Linear.build(table).covering(0).tolist() == []
