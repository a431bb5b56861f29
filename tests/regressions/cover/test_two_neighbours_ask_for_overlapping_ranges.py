"""Neighbours 1 and 2 ask for [10, 20] and [15, 30]. A broker that keeps one set for both takes 15 to 20 away from 2
when 1 leaves. What is told on a link is counted by incoming link: a set per neighbour, and a table of their changes.
"""

from __future__ import annotations

import pytest

from earmark.cover import RangeSet, RangeTable


@pytest.mark.parametrize("repeated", [False, True])
def test_what_another_neighbour_asks_for_stays(repeated: bool) -> None:
    asked, told, known = (RangeSet(), RangeSet()), RangeTable(), RangeSet()
    known.add(told.subscribe(asked[0].add([(10, 20)])))
    known.add(told.subscribe(asked[1].add([(15, 30)])))
    if repeated:  # a neighbour that says the same again changes nothing
        assert not told.subscribe(asked[0].add([(10, 20)]))
    withdrawn = told.unsubscribe(asked[0].discard([(10, 20)]))
    assert withdrawn.pairs() == [(10, 14)]
    assert known.discard(withdrawn).pairs() == [(10, 14)]
    assert known.ranges().pairs() == told.ranges().pairs() == [(15, 30)]
    if repeated:
        assert not told.unsubscribe(asked[0].discard([(10, 20)]))
    assert told.unsubscribe(asked[1].discard([(0, 100)])).pairs() == [(15, 30)]
    assert not told.ranges()
