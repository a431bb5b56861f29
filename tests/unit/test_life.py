"""Life spans through the public API: moments in every form, errors, round trips, and segments that retire."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import earmark
from earmark import Matcher
from earmark.cover.merging.merge import merge
from earmark.cover.ranges.summary import summarize
from earmark.engine import compaction

SPRING = {"starts": "2026-03-01", "ends": datetime(2026, 6, 1, tzinfo=UTC)}
MARCH, JUNE = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)


def spring(time: str | None = "t") -> Matcher:
    m = Matcher("scan", time=time)
    m.add("spring", "price < 20", **SPRING)
    m.add("always", "price < 30")
    return m


@pytest.mark.parametrize(
    ("moment", "is_alive"),
    [
        (MARCH - timedelta(microseconds=1), False),
        (MARCH, True),
        ("2026-03-01", True),
        (date(2026, 3, 1), True),
        ("2026-06-01 00:00:00+02:00", True),
        (JUNE - timedelta(microseconds=1), True),
        (JUNE, False),
        ("2026-06-01T00:00:00Z", False),
    ],
)
def test_the_first_moment_is_in_and_the_last_is_not(moment: Any, is_alive: bool) -> None:
    expected = ["spring", "always"] if is_alive else ["always"]
    assert spring().match({"price": 5, "t": moment}) == expected
    assert spring().match({"price": 5, "t": "1999-01-01"}, at=moment) == expected
    assert spring(None).match({"price": 5}, at=moment) == expected
    assert spring(None).match_many(pa.table({"price": [5]}), at=moment)["subscription"].to_pylist() == expected
    reader = spring(None).match_reader(iter([{"price": 5}]), at=moment)
    assert reader.read_all()["subscription"].to_pylist() == expected


def test_without_a_time_it_is_now() -> None:
    m = Matcher("scan")
    m.add("past", "TRUE", ends=datetime.now(UTC) - timedelta(hours=1))
    m.add("present", "TRUE", ends=datetime.now(UTC) + timedelta(hours=1))
    assert m.match({}) == ["present"]
    assert m.match_many([{}])["subscription"].to_pylist() == ["present"]
    assert m.near_misses({})[0].id == "past"
    assert m.never_matching() == []


def test_an_event_without_its_time_matches_nothing_that_ends() -> None:
    assert spring().match({"price": 5}) == ["always"]


def test_the_time_may_be_nested() -> None:
    m = Matcher("scan", time="meta.t")
    m.add("spring", "price < 20", **SPRING)
    assert m.match({"price": 5, "meta": {"t": MARCH}}) == ["spring"]
    frame = pa.table({"price": [5, 5], "meta": [{"t": MARCH}, {"t": JUNE}]})
    assert m.match_many(frame)["event"].to_pylist() == [0]


def test_the_zone_of_the_matcher_reads_naive_moments() -> None:
    m = Matcher("scan", zone="America/New_York")
    m.add("a", "TRUE", starts="2026-03-01 00:00:00")
    assert m["a"].starts == datetime(2026, 3, 1, 5, tzinfo=UTC)


def test_explain_says_when_it_ended_and_starts() -> None:
    m = spring()
    assert "✗ ended on 2026-06-01 00:00:00   (t = '2026-07-01')" in str(
        m.explain("spring", {"price": 5, "t": "2026-07-01"})
    )
    assert "✗ starts on 2026-03-01 00:00:00" in str(m.explain("spring", {"price": 5, "t": "2026-02-01"}))
    held = m.explain("spring", {"price": 5, "t": "2026-04-01"})
    assert held.score == 1.0 and "starts on 2026-03-01 00:00:00, ends on 2026-06-01 00:00:00" in str(held)


@pytest.mark.parametrize(
    ("life", "reason"),
    [
        ({"starts": "2026-06-01", "ends": "2026-06-01"}, "expected starts before ends"),
        (
            {"starts": "tomorrow"},
            "expected a moment such as .* for starts, got 'tomorrow'",
        ),
        ({"ends": 17}, "expected a moment .* for ends, got 17"),
    ],
)
def test_what_is_no_life_span(life: dict[str, Any], reason: str) -> None:
    m = Matcher("scan")
    with pytest.raises(earmark.SubscriptionError, match=reason):
        m.add("a", "x > 1", **life)
    frame = pa.table({"id": [1, 2], "x_lo": [1, 2], "x_hi": [3, 4], **{n: [str(v), None] for n, v in life.items()}})
    with pytest.raises(earmark.SubscriptionError, match="row 0"):
        m.add_many(frame)
    assert len(m) == 0 and m.attributes == {}


def test_what_is_no_time() -> None:
    with pytest.raises(earmark.EventError, match=r"expected a timestamp .* for 't', got 'soon'"):
        spring().match({"price": 5, "t": "soon"})
    with pytest.raises(earmark.EventError, match=r"expected a moment .* for `at`, got 3"):
        spring().match({"price": 5}, at=3)  # type: ignore[arg-type]
    rejects: list[Any] = []
    found = spring().match_many([{"price": 5, "t": "soon"}], on_error="null", rejects=rejects)
    assert found["subscription"].to_pylist() == ["always"] and [one.attribute for one in rejects] == ["t"]
    with pytest.raises(earmark.EventError, match="a name that stands for its time"):
        spring().match({".life": JUNE})
    with pytest.raises(earmark.EventError, match="a name that stands for its time"):
        spring().match_many([{".life": JUNE}])
    with pytest.raises(earmark.EarmarkError, match="there is no attribute"):
        spring().retype(".life", "integer")


def test_it_comes_back_in_every_form(tmp_path: Path) -> None:
    m = spring()
    m.save(tmp_path / "book")
    again = Matcher("scan", time="t")
    again.add_many(m.to_arrow())
    framed = Matcher("scan", time="t")
    framed.add_many(m.to_frame())
    for other in (again, framed, Matcher.load(tmp_path / "book"), pickle.loads(pickle.dumps(m))):
        assert (other["spring"].starts, other["spring"].ends) == (MARCH, JUNE)
        assert other.time == "t" and other["always"].starts is None
        assert other.match({"price": 5, "t": JUNE}) == ["always"]
    assert "starts" not in Matcher().to_frame().column_names
    assert list(m.attributes) == ["t", "price"] and m.unseen_attributes()[0] == ["price", "t"]


def test_updates_keep_what_is_not_given() -> None:
    m = spring()
    m.update("spring", "price < 25")
    m.update("spring", weights={"price": 2.0})
    m.update("spring", ends="2027-01-01")
    one = m["spring"]
    assert (one.condition, one.starts, one.weights) == ("price < 25", MARCH, {"price": 2.0})
    assert m.match({"price": 5, "t": "2026-12-31"}) == ["spring", "always"]
    m.update("spring", starts=None, ends=None)
    assert m["spring"].ends is None and m.match({"price": 5}) == ["spring", "always"]
    m.upsert("spring", "price < 25", ends="2020-01-01")
    assert m.match({"price": 5, "t": "2026-12-31"}) == ["always"]


def test_covers_ask_for_the_whole_span() -> None:
    m = Matcher("scan")
    m.add("wide", "x < 20", starts="2026-01-01", ends="2027-01-01")
    m.add("inside", "x < 10", starts="2026-02-01", ends="2026-03-01")
    m.add("longer", "x < 10", starts="2026-02-01")
    assert m.covered_by("inside") == ["wide", "longer"]
    assert m.covered_by("longer") == []
    assert not m.audit().duplicates


def test_what_ended_retires_and_late_events_still_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SMALLEST_SHRINK", 20)
    m = Matcher("blocks", time="t")
    m.add_many([{"id": i, "condition": "x > 3", "ends": "2020-01-01" if i % 2 else None} for i in range(200)])
    m.compact()
    assert sorted(one.live for one in m._version.segments) == [100, 100]
    assert m.match({"x": 5, "t": "2026-01-01"}) == list(range(0, 200, 2))
    assert m.match({"x": 5, "t": "2019-01-01"}) == list(range(200))
    both = m.match_many([{"x": 5, "t": "2026-01-01"}, {"x": 5, "t": "2019-01-01"}])
    assert both.num_rows == 300
    assert [one.id for one in m.top_k({"x": 5, "t": "2019-01-01"}, 3)] == [0, 1, 2]
    assert [one.id for one in m.top_k({"x": 5, "t": "2026-01-01"}, 3)] == [0, 2, 4]
    looked = m.profile([{"x": 5, "t": "2026-01-01"}])
    assert looked.matched == 100
    m.remove_many(range(1, 200, 4))
    m.add(1000, "x > 3")
    m.compact()
    m.check()
    assert len(m.match({"x": 5, "t": "2019-01-01"})) == 151
    assert len(m.match({"x": 5, "t": "2026-01-01"})) == 101


def test_what_is_written_as_text_takes_no_life_spans() -> None:
    for done in (merge, summarize):
        with pytest.raises(earmark.EarmarkError, match="subscriptions that start or end cannot be"):
            done(spring(), [{"price": 1}], 0.0)


def test_a_book_of_which_all_has_ended() -> None:
    m = Matcher("blocks", time="t")
    m.add_many([{"id": i, "condition": "x > 3", "ends": "2020-01-01"} for i in range(100)])
    m.compact()
    assert m.match({"x": 5, "t": "2026-01-01"}) == []
    assert m.match_many([{"x": 5, "t": "2026-01-01"}]).num_rows == 0
    assert m.top_k_many([{"x": 5, "t": "2026-01-01"}], 3).num_rows == 0


def test_background_retirement_beside_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SMALLEST_SHRINK", 20)
    monkeypatch.setattr(compaction, "RETIRE_AFTER", 10**18)  # nothing retires yet
    m = Matcher("blocks", time="t")
    m.add_many([{"id": i, "condition": f"x > {i % 7}", "ends": f"2020-01-{1 + i % 28:02}"} for i in range(150)])
    m.add_many([(i, "x > 3") for i in range(150, 300)])
    m.compact()
    assert len(m._version.segments) == 1
    monkeypatch.setattr(compaction, "RETIRE_AFTER", 0)
    for i in range(40):  # every change asks for a compaction
        m.remove(i)
        m.add(1000 + i, "x > 3")
    m._compactor.wait()
    m.check()
    assert len({one.last_moment for one in m._version.segments}) >= 2
    assert len(m.match({"x": 9, "t": "2019-01-01"})) == 300
    assert m.match({"x": 9, "t": "2026-01-01"}) == [*range(150, 300), *range(1000, 1040)]
