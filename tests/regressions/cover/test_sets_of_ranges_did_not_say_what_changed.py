"""`RangeSet.add` and `discard` returned nothing, so whoever passes on what a neighbour asks for had to pass on the
message itself. A message that repeats what is known was then counted again, and taken back once too often or too
rarely.
"""

from __future__ import annotations

from earmark.cover import RangeSet


def test_add_returns_what_is_new() -> None:
    asked = RangeSet()
    assert asked.add([(10, 20), (40, 50)]).pairs() == [(10, 20), (40, 50)]
    assert asked.add([(12, 13)]).pairs() == []
    assert asked.add([(15, 60)]).pairs() == [(21, 39), (51, 60)]
    assert asked.add([(0, 100)]).pairs() == [(0, 9), (61, 100)]


def test_discard_returns_what_went() -> None:
    asked = RangeSet([(10, 20), (40, 50), (70, 80)])
    assert asked.discard([(0, 5), (21, 39)]).pairs() == []
    assert asked.discard([(12, 13), (15, 15)]).pairs() == [(12, 13), (15, 15)]
    assert asked.discard([(0, 75)]).pairs() == [(10, 11), (14, 14), (16, 20), (40, 50), (70, 75)]
    assert asked.ranges().pairs() == [(76, 80)]
    asked.check()
