"""A wide subscription after a narrow one: the printed algorithm leaves the narrow one forwarded (Property 1 fails)."""

from __future__ import annotations

import numpy as np
import pytest

from earmark import Matcher
from earmark.cover import INDEXES, builder
from earmark.cover.canonical import canonical
from earmark.cover.relation_graph import Change, CompleteGraph, RelationGraph, StrictPoset

NONE = np.empty(0, np.int32)


@pytest.mark.parametrize("kind", [RelationGraph, CompleteGraph, StrictPoset])
@pytest.mark.parametrize("name", sorted(INDEXES))
def test_it_stays_forwarded_unless_withdrawn(name: str, kind: type[RelationGraph]) -> None:
    matcher = Matcher()
    matcher.add_many([("narrow", "a = 5"), ("wide", "a > 0"), ("middle", "a BETWEEN 4 AND 6")])
    table = canonical(matcher._version.whole)
    graph = kind(builder(name)(table, NONE))
    graph.subscribe(0, table)
    assert graph.subscribe(1, table) == Change((1,), ())
    assert graph.forwarded == {0, 1}
    assert graph.subscribe(2, table) == Change()
    assert graph.unsubscribe(1) == Change((2,), (1,))
    graph.check()
    assert graph.unsubscribe(0) == Change((), (0,))
    graph.check()

    graph = kind(builder(name)(table, NONE), withdraw=True)
    graph.subscribe(0, table)
    assert graph.subscribe(1, table) == Change((1,), (0,))
    assert graph.forwarded == {1}
    graph.check()
    assert graph.unsubscribe(1) == Change((0,), (1,))
    graph.check()
