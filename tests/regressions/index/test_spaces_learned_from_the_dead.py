"""Summaries, projections and tables of ranges chose axes and cells by subscriptions that had been removed."""

from __future__ import annotations

import numpy as np

from earmark import Matcher
from earmark.cover import summarize
from earmark.cover.canonical import canonical
from earmark.cover.ranges.projection import Projection
from earmark.cover.ranges.subsumption import Subsumption


def test_the_removed_teach_nothing() -> None:
    m = Matcher(attributes=dict.fromkeys("xyz", "integer"))
    m.add_many([(i, f"x BETWEEN {i} AND {i + 1}") for i in range(50)])
    m.add_many([(1000 + i, f"x = {10**12 + i} AND y = {i} AND z = {i}") for i in range(400)])
    m.remove_many([1000 + i for i in range(400)])
    assert m._version.slots == 450
    view = m._version.whole
    live = np.arange(len(view), dtype=np.int32)
    table = canonical(view)
    summary = summarize(m, [], budget=0)
    for space in (
        summary.space,
        Subsumption.build(table, live).space,
        Projection.build(table, live).space,
    ):
        assert space.attr.tolist() == [0]
        assert space.cuts.max() <= 51
    assert len(summary) == 1
