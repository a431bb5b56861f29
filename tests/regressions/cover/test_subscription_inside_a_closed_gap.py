"""Imperfect merging closes the gap between two ranges. The table claims the gap from then on, so a later subscription
inside it looks covered and is not forwarded: unless the gap itself had been forwarded, its publications would be lost.
"""

from __future__ import annotations

import numpy as np

from earmark import Matcher
from earmark.cover.canonical import canonical
from earmark.cover.exact import Verdict
from earmark.cover.ranges.subsumption import Subsumption
from earmark.cover.ranges.table import RangeSet
from earmark.curves import hilbert
from earmark.curves.space import boxes_of_events, space_of
from earmark.events.frames import encode_many


def test_subscription_inside_a_closed_gap() -> None:
    m = Matcher(attributes={"x": "integer"})
    m.add("left", "x BETWEEN 0 AND 3")
    m.add("right", "x BETWEEN 6 AND 9")
    m.add("between", "x BETWEEN 4 AND 5")
    events = encode_many(m._version.whole.schema, [{"x": 4}, {"x": 5}, {"x": 12}])
    table = canonical(m._version.whole)
    space = space_of(np.array([0], np.int32), [np.arange(1, 14, dtype=np.int64)], 4)
    published = hilbert.numbers(boxes_of_events(space, events)[0], 4)

    broker, neighbour = Subsumption(space, gap=2), RangeSet()
    told = [broker.subscribe(slot, table) for slot in range(3)]
    for one in told:
        neighbour.add(one.forward)

    assert told[2].verdict is Verdict.SUBSUMED and not told[2].forward
    assert neighbour.holds(published).tolist() == [True, True, False]

    # without "between" the gap stays claimed, and without "right" it goes
    for slot, wanted in ((2, [True, True, False]), (1, [False, False, False])):
        neighbour.discard(broker.unsubscribe(slot).withdraw)
        assert neighbour.holds(published).tolist() == wanted
