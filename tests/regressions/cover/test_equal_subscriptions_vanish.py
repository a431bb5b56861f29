"""X covers equal A and B; X goes; if each of the equals counts as covered by the other, neither is forwarded."""

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
def test_the_older_of_two_equals_is_forwarded(name: str, kind: type[RelationGraph]) -> None:
    matcher = Matcher(attributes={"a": "integer"})
    matcher.add_many([("X", "a BETWEEN 0 AND 9"), ("A", "a IN (2, 3)"), ("B", "a >= 2 AND a < 4")])
    table = canonical(matcher._version.whole)
    graph = kind(builder(name)(table, NONE))
    assert [graph.subscribe(slot, table).forward for slot in range(3)] == [(0,), (), ()]
    assert graph.unsubscribe(0) == Change((1,), (0,))
    graph.check()
    assert graph.unsubscribe(1) == Change((2,), (1,))
    graph.check()
    graph.subscribe(1, table)  # the older comes back: it is not covered by the younger
    graph.check()
    assert 1 in graph.forwarded
