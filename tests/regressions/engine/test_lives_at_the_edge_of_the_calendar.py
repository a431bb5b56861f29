"""A life span whose moment leaves the years 1 to 9999 in UTC was taken, and made a book that could not be opened;
columns of such moments, and NaT, raised errors of other libraries. `explain` showed moments of any zone in UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import earmark
from earmark import EventError, Matcher, SubscriptionError
from earmark.events.moments import moment_key

NEW_YORK, TOKYO = "America/New_York", "Asia/Tokyo"


@pytest.mark.parametrize(
    ("zone", "span"),
    [
        (NEW_YORK, {"ends": "9999-12-31 23:00:00"}),
        (NEW_YORK, {"starts": "9999-12-31 23:00:00"}),
        (NEW_YORK, {"ends": datetime(9999, 12, 31, 23)}),
        (TOKYO, {"starts": "0001-01-01 00:00:00"}),
        (TOKYO, {"ends": date(1, 1, 1)}),
    ],
)
def test_moments_beyond_are_refused(zone: str, span: dict[str, Any], tmp_path: Path) -> None:
    with earmark.open(tmp_path / "book", index="scan", zone=zone) as m:
        with pytest.raises(SubscriptionError, match=r"in the years 1 to 9999 of UTC for (starts|ends), got"):
            m.add("x", "a > 1", **span)
        with pytest.raises(SubscriptionError, match="in the years 1 to 9999 of UTC"):
            m.add_many([{"id": "x", "condition": "a > 1", **span}])
        columns = {name: [value] for name, value in span.items()}
        with pytest.raises(SubscriptionError, match="in the years 1 to 9999 of UTC"):
            m.add_many(pa.table({"id": ["x"], "a_lo": [1], "a_hi": [2], **columns}))
        assert len(m) == 0


LAST, FIRST = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC), datetime(1, 1, 1, tzinfo=UTC)


def test_nothing_ends_at_the_first_moment() -> None:
    m = Matcher("scan")
    for frame in ({"condition": ["a > 1"]}, {"a_lo": [1], "a_hi": [5]}):
        with pytest.raises(SubscriptionError, match="expected ends after the first moment"):
            m.add_many(pa.table({"id": ["x"], **frame, "ends": pa.array([FIRST], pa.timestamp("us", "UTC"))}))


@pytest.mark.parametrize(("name", "last"), [("starts", LAST), ("ends", LAST), ("starts", FIRST)])
def test_the_last_moments_come_back(name: str, last: datetime, tmp_path: Path) -> None:
    for zone in (NEW_YORK, TOKYO):
        with earmark.open(tmp_path / zone[:3], index="scan", zone=zone) as m:
            m.add(1, "a > 1", **{name: last})
            m.add_many(
                pa.table({"id": [2], "a_lo": [2], "a_hi": [9], name: pa.array([last], pa.timestamp("us", "UTC"))})
            )
            assert str(m.explain(1, {"a": 5})) and str(m.explain(2, {"a": 5}))
            assert m.to_frame().column(name).to_pylist() == [last, last]
        with earmark.open(tmp_path / zone[:3], readonly=True) as m:
            assert getattr(m[1], name) == getattr(m[2], name) == last
            m.check()


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("s", "Europe/Paris"), pa.date32()])
@pytest.mark.parametrize("name", ["starts", "ends"])
def test_columns_beyond(kind: pa.DataType, name: str) -> None:
    far = {"us": 4 * 10**17, "s": 4 * 10**11}.get(getattr(kind, "unit", ""), 9_000_000)
    numbers = pa.array([0, far], pa.int32() if kind == pa.date32() else pa.int64())
    moments = {name: numbers.cast(kind)}
    other = {"ends" if name == "starts" else "starts": pa.array([None, datetime(2026, 1, 1)])}
    m = Matcher("scan")
    for frame in ({"condition": ["a > 1", "a > 2"]}, {"a_lo": [1, 2], "a_hi": [5, 6]}):
        with pytest.raises(SubscriptionError, match=f"for {name}, got ") as caught:
            m.add_many(pa.table({"id": ["near", "far"], **frame, **moments, **other}))
        assert caught.value.row == 1
    assert len(m) == 0


@pytest.mark.parametrize("value", [pd.NaT, np.datetime64("NaT"), np.datetime64(10**12, "Y"), None, 5])
def test_what_is_no_moment(value: Any) -> None:
    with pytest.raises(EventError, match=r"expected a moment such as .* for `at`, got"):
        moment_key(value, ZoneInfo(TOKYO), "`at`", EventError)


def test_moments_of_pandas() -> None:
    m = Matcher("scan")
    m.add("x", "a > 1", ends=pd.Timestamp.max)
    m.add("y", "a > 1", starts=pd.NaT, ends=pd.NaT)
    assert m.match({"a": 5}, at=pd.Timestamp("2026-01-01")) == ["x", "y"]
    with pytest.raises(EventError, match="expected a moment"):
        m.match({"a": 5}, at=pd.NaT)


def test_explanations_are_in_the_zone() -> None:
    m = Matcher("scan", zone="Europe/Paris")
    m.add("x", "a > 1", starts="2026-03-01", ends="2026-06-01")
    assert "✗ ended on 2026-06-01 00:00:00 " in str(m.explain("x", {"a": 5}, at="2026-07-01"))
    assert "✗ starts on 2026-03-01 00:00:00 " in str(m.explain("x", {"a": 5}, at="2026-02-01"))
