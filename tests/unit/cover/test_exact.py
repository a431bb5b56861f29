"""Box minus union of boxes against the sets of all events, and the bound on its work."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cover.worlds import EVENTS, World, schema

from earmark import Matcher
from earmark.cover.cover_index import subsumed
from earmark.cover.exact import Verdict, decide
from earmark.errors import EarmarkError


@given(seed=st.integers(0, 2**32), count=st.integers(0, 12))
def test_verdicts_are_those_of_the_sets(seed: int, count: int) -> None:
    made = World(Random(seed))
    for _ in range(count + 1):
        made.add(made.subscription())
    table, slot = made.table(), count
    found = decide(table, slot, np.arange(count + 1), schema().domains)
    wanted = 0
    for part in made.bits[slot]:
        wanted |= part
    others = 0
    for other in range(count):
        for part in made.bits[other]:
            others |= part
    covered = any(made.contains(other, slot) for other in range(count))
    if covered:
        assert found.verdict is Verdict.COVERED and made.contains(int(found.by[0]), slot)
    elif wanted & ~others == 0:
        assert found.verdict is Verdict.SUBSUMED
        together = 0
        for other in found.by:
            for part in made.bits[int(other)]:
                together |= part
        assert wanted & ~together == 0
    else:
        assert found.verdict is Verdict.NEEDED
        assert found.witness is not None
        places = [i for i, e in enumerate(EVENTS) if all(e[a] == v for a, v in found.witness.items())]
        assert places and all(wanted >> i & 1 and not others >> i & 1 for i in places)


def checkers(side: int) -> Matcher:
    """Two colours of a board: together with the rest of the plane they take everything, and few pieces are large."""
    m = Matcher(attributes={"x": "integer", "y": "integer"})
    m.add("board", f"x BETWEEN 0 AND {side - 1} AND y BETWEEN 0 AND {side - 1}")
    for x in range(side):
        for y in range(side):
            m.add(f"{x},{y}", f"x = {x} AND y = {y}")
    return m


def test_many_small_ones_subsume_a_large_one() -> None:
    m = checkers(9)
    found = subsumed(m, "board")
    assert found.verdict is Verdict.SUBSUMED
    assert set(found.by) == set(m.ids()) - {"board"}
    assert subsumed(m, "3,4").verdict is Verdict.COVERED
    m.remove("8,8")
    found = subsumed(m, "board")
    assert found.verdict is Verdict.NEEDED and found.witness == {"x": 8, "y": 8}


def test_the_bound_on_work_is_kept_and_told() -> None:
    m = checkers(9)
    found = subsumed(m, "board", work=100)
    assert found.verdict is Verdict.UNDECIDED and found.by == () and found.witness is None
    assert found.work <= 101
    with pytest.raises(EarmarkError, match="for work, got 0"):
        subsumed(m, "board", work=0)


def test_types_null_and_texts() -> None:
    m = Matcher(attributes={"b": "boolean", "s": "string", "f": "float"})
    m.add("all", "TRUE")
    m.add("yes", "b")
    m.add("no", "NOT b")
    assert subsumed(m, "all").verdict is Verdict.NEEDED  # events without b
    m.add("none", "b IS NULL")
    assert subsumed(m, "all").verdict is Verdict.SUBSUMED
    assert subsumed(m, "all").by == ("yes", "no", "none")
    m.add("word", "s BETWEEN 'a' AND 'c' AND b")
    m.remove_many(["all", "yes", "no", "none"])
    m.add("low", "s >= 'a' AND s < 'b'")
    m.add("high", "s >= 'b' AND s < 'cc'")
    assert subsumed(m, "word").verdict is Verdict.SUBSUMED
    m.add("float", "f >= 1 OR f IS NULL")
    m.add("to two", "f <= 2")
    m.add("from two", "f > 2 OR f IS NULL")
    assert subsumed(m, "float").verdict is Verdict.SUBSUMED
    m.add("never", "f > 3 AND f < 2")
    assert subsumed(m, "never").verdict is Verdict.COVERED


def test_several_clauses_only_together() -> None:
    """What the audit leaves open (docs/hygiene.md) is decided here."""
    m = Matcher()
    m.add("either", "a > 0 OR b > 0")
    m.add("parts", "(a > 0 AND c > 0) OR (a > 0 AND c <= 0) OR (a > 0 AND c IS NULL) OR b > 0")
    assert subsumed(m, "either") == subsumed(m, "either")._replace(verdict=Verdict.SUBSUMED, by=("parts",))
