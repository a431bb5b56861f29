"""`time="t"` gave `t` no type: a condition on it made it a string, and then events with datetimes were refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import earmark
from earmark import AttributeTypeError, EarmarkError
from earmark.book import care


def test_a_condition_on_it() -> None:
    m = earmark.Matcher("scan", time="t")
    m.add("a", "t >= '2026-01-05'", starts="2026-01-01")
    assert m.attributes["t"].type == "timestamp" and m.attributes["t"].declared
    for moment in (datetime(2026, 1, 5, tzinfo=UTC), date(2026, 1, 5), "2026-01-05", "2026-01-05T00:00:00Z"):
        assert m.match({"t": moment}) == ["a"]
    assert m.match({"t": datetime(2026, 1, 4)}) == [] == m.match({})


@pytest.mark.parametrize("type_", ["integer", "string", "number", "boolean", "decimal(10,2)"])
def test_another_type_is_refused(tmp_path: Path, type_: str) -> None:
    message = "the time of events, 't', is a timestamp or a date, got the type "
    with pytest.raises(EarmarkError, match=message):
        earmark.Matcher(time="t", attributes={"t": type_})
    with pytest.raises(EarmarkError, match=message):
        earmark.open(tmp_path / "b", time="t", attributes={"t": type_})
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("type_", ["timestamp", "date"])
def test_its_own_type_stays(type_: str) -> None:
    m = earmark.Matcher("scan", time="t", attributes={"x": "integer", "t": type_})
    m.add("a", "t >= '2026-01-05'", starts="2026-01-05", ends="2026-01-06")
    assert m.attributes["t"].type == type_
    assert m.match({"t": date(2026, 1, 5)}) == ["a"] and m.match({"t": date(2026, 1, 6)}) == []


def test_of_a_book(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan", time="t") as m:
        m.add("a", "t >= '2026-01-05'")
        m.add("b", "TRUE", starts="2026-01-01")
        m.checkpoint()
        m.erase("a")
        assert m.attributes["t"].type == "timestamp"
    assert care.check(tmp_path / "b") == []
    care.repair(tmp_path / "b")
    with earmark.open(tmp_path / "b") as m:
        assert m.attributes["t"].type == "timestamp" and m.match({"t": datetime(2026, 1, 5)}) == ["b"]
        with pytest.raises(AttributeTypeError):
            m.match({"t": 5})


def test_saved(tmp_path: Path) -> None:
    m = earmark.Matcher("scan", time="t")
    m.add("a", "TRUE", ends="2026-01-01")
    m.save(tmp_path / "b")
    assert earmark.Matcher.load(tmp_path / "b").attributes["t"].type == "timestamp"
