"""A single `top_k` beside a segment without an index went the way of batches, sixteen times as slow."""

from __future__ import annotations

from typing import Any

import pytest

import earmark
from earmark.engine import compaction
from earmark.engine.searcher import Searcher


@pytest.mark.parametrize("mode", ["exact", "relaxed"])
@pytest.mark.parametrize("combine", ["sum", "max"])
def test_each_segment_is_asked_by_its_index(mode: Any, combine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"id": i, "condition": f"a BETWEEN {i % 50} AND {i % 50 + 5} AND b < {i % 7 + 3}", "score": float(i % 5)}
        for i in range(900)
    ]
    monkeypatch.setattr(compaction, "next_compaction", lambda version: None)
    m, whole = earmark.Matcher(combine=combine), earmark.Matcher("scan", combine=combine)
    whole.add_many(rows, progress=False)
    m.add_many(rows[:600], progress=False)
    m.add_many(rows[600:800], progress=False)
    for row in rows[800:]:
        m.add(row["id"], row["condition"], score=row["score"])
    event, weights = {"a": 20, "b": 4}, {"a": 2.5}
    right = {k: whole.top_k(event, k, mode=mode, weights=weights) for k in (1, 7, 2_000)}
    assert len(m._version.segments) > 1
    monkeypatch.setattr(Searcher, "_each", lambda *_: pytest.fail("it goes the way of batches"))
    for k, best in right.items():
        assert m.top_k(event, k, mode=mode, weights=weights) == best
