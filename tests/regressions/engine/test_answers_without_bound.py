"""200,000 conditions TRUE and 10,000 events asked for 8.9 GiB; k = 10^9 ran for minutes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from earmark import EarmarkError, Matcher
from earmark.engine import batch, searcher
from earmark.index import answers


@pytest.mark.parametrize(
    "index", ["scan", "be_star_tree", "blocks", "k_index", "interval_tree", "vcr", "mics", "r_tree"]
)
def test_too_many_are_refused_and_read_piece_by_piece(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (answers, searcher):
        monkeypatch.setattr(module, "MOST_ANSWERS", 5_000)
    m = Matcher(index)
    m.add_many([(i, "TRUE" if i % 2 else "a > 1 OR b > 1") for i in range(200)])
    events = [{"a": i, "b": 3} for i in range(100)]
    with pytest.raises(EarmarkError, match=r"more than 5,000 answers; read them piece by piece with match_reader"):
        m.match_many(events)
    with pytest.raises(EarmarkError, match=r"may give more than 5,000 answers.*top_k_reader"):
        m.top_k_many(events, 10**9)
    found = m.match_reader(iter(events)).read_all()
    assert found.num_rows == 20_000
    assert found["event"].to_pylist() == sorted(found["event"].to_pylist())
    assert found.slice(0, 200)["subscription"].to_pylist() == list(range(200))
    best = m.top_k_reader(pa.Table.from_pylist(events), 10**9).read_all()
    assert best.num_rows == 20_000
    assert len(m.top_k(events[0], 10**9)) == 200


def test_readers_number_events_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "GROUP", 3)
    m = Matcher("scan")
    m.add("x", "a >= 4")
    events = [{"a": i} for i in range(10)]
    frame = pa.Table.from_pylist(events)
    for given in (events, frame, frame.to_reader(max_chunksize=4), iter(events)):
        assert m.match_reader(given).read_all()["event"].to_pylist() == list(range(4, 10))
    rejects: list = []
    odd = [*events[:5], {"a": "five"}, *events[6:]]
    found = m.match_reader(odd, on_error="reject", rejects=rejects).read_all()
    assert found["event"].to_pylist() == [4, 6, 7, 8, 9]
    assert [(one.event, one.attribute) for one in rejects] == [(5, "a")]
    with pytest.raises(EarmarkError, match=r"^event 5: expected a number for 'a'"):
        m.match_reader(odd).read_all()
