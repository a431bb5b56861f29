"""A batch of events that met very many covers could not be routed: `route="shuffle"` failed on it, as memory grew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from earmark.engine import router as routers
from earmark.engine.router import Router
from earmark.errors import TooManyAnswers
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import frozen
from earmark.index import answers
from earmark.index.driver import ArrayIndex
from earmark.segment.arrays import SegmentArrays, boxes_table

COVERS, EVENTS, MOST, AT_ONCE = 200, 600, 5_000, 4_000


def at_least(bounds: np.ndarray) -> SegmentArrays:
    """Covers that an event with an attribute of at least this value meets."""
    count = len(bounds)
    ends, numbers = np.arange(count + 1, dtype=np.int32), np.zeros(count, np.int32)
    return boxes_table(ends, numbers, np.zeros(count, np.uint8), ends, bounds, np.full(count, 1_000))


def events_at(values: np.ndarray) -> EventArrays:
    starts, numbers = np.arange(len(values) + 1), np.zeros(len(values), np.int32)
    return EventArrays(*map(frozen, (starts, numbers, values, values, np.empty(0))))


def test_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    router = Router.of([at_least(np.zeros(COVERS, np.int64)), at_least(np.arange(COVERS)), at_least(np.full(3, 500))])
    values = np.arange(EVENTS, dtype=np.int64)
    wanted = [np.flatnonzero(values >= least).tolist() for least in (0, 0, 500)]
    monkeypatch.setattr(answers, "MOST_ANSWERS", MOST)
    monkeypatch.setattr(routers, "MET_AT_ONCE", AT_ONCE)
    with pytest.raises(TooManyAnswers):
        router._route_piece(events_at(values))
    met, match_many = [], ArrayIndex.match_many

    def noted(*given: Any) -> Any:
        found = match_many(*given)
        met.append(len(found[1]))
        return found

    monkeypatch.setattr(ArrayIndex, "match_many", noted)
    starts, numbers = router.route(events_at(values))
    assert [numbers[starts[i] : starts[i + 1]].tolist() for i in range(3)] == wanted
    assert len(met) > 3 and max(met) <= 2 * AT_ONCE


def test_no_events() -> None:
    starts, numbers = Router.of([at_least(np.zeros(2, np.int64))] * 2).route(events_at(np.empty(0, np.int64)))
    assert starts.tolist() == [0, 0, 0] and not len(numbers)
