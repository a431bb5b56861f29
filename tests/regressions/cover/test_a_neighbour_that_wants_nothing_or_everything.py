"""A space was learned from what subscriptions ask of attributes. A neighbour without subscriptions, and one that wants
TRUE alone, ask nothing of any, and learning, projecting and summarizing raised.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from earmark.cover import Projection, RangeSummary, Subsumption, Verdict, summarize
from earmark.cover.canonical import canonical
from earmark.cover.cover_index import version_of
from earmark.cover.ranges.summary import Summary
from earmark.curves.space import learned_space

EVENTS = [{"x": 1}, {"y": "a"}, {}] * 4
WANTED = [([], False), ([("all", "TRUE")], True), ([("none", "x > 3 AND x < 3")], False)]
Batch = list[tuple[str, str]]


@pytest.mark.parametrize(("batch", "wanted"), WANTED)
def test_a_space_of_one_cell(batch: Batch, wanted: bool) -> None:
    space = learned_space(canonical(version_of(batch).whole))
    assert space.axes == 0
    projection = Projection.of(batch)
    assert projection.ranges().pairs() == [(0, 0)] * wanted
    assert projection.sends(EVENTS).tolist() == [wanted] * len(EVENTS)


@pytest.mark.parametrize(("batch", "wanted"), WANTED)
def test_a_summary(batch: Batch, wanted: bool, tmp_path: Path) -> None:
    summary: Summary = summarize(batch, EVENTS, 0.1)
    assert summary.ranges.pairs() == [(0, 0)] * wanted
    pq.write_table(summary.to_arrow(), tmp_path / "ranges.parquet")
    assert RangeSummary.open(tmp_path / "ranges.parquet").wants(EVENTS).tolist() == [wanted] * len(EVENTS)


@pytest.mark.parametrize(("batch", "wanted"), WANTED)
def test_what_is_forwarded(batch: Batch, wanted: bool) -> None:
    broker = Subsumption.of(batch)
    assert broker.claimed.ranges().pairs() == [(0, 0)] * wanted
    change = broker.subscribe("new", "z = 3")
    assert change.verdict is (Verdict.SUBSUMED if wanted else Verdict.NEEDED)
    assert change.forward.pairs() == [(0, 0)] * (not wanted)
    assert broker.unsubscribe("new").withdraw.pairs() == change.forward.pairs()
    broker.check()
