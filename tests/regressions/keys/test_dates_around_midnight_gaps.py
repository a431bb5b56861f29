"""A date compared with a timestamp counts as the first moment of its day, as in java.time: where a zone skips midnight
that is the end of the gap (Toronto, 1919), and where it skips a whole day two dates are equal (Samoa, 2011).
"""

from __future__ import annotations

from datetime import date, datetime

from earmark import Matcher


def test_toronto() -> None:
    m = Matcher(zone="America/Toronto", attributes={"d": "date"})
    m.add("x", "d <= TIMESTAMP '1919-03-31 00:30:00'")
    assert m.match({"d": date(1919, 3, 31)}) == ["x"]
    assert m.match({"d": date(1919, 4, 1)}) == []


def test_samoa() -> None:
    m = Matcher(zone="Pacific/Apia", attributes={"d": "date", "t": "timestamp"})
    m.add("d", "d = TIMESTAMP '2011-12-31 00:00:00'")
    m.add("t", "t = DATE '2011-12-30'")
    assert m.match({"d": date(2011, 12, 30)}) == m.match({"d": date(2011, 12, 31)}) == ["d"]
    assert m.match({"t": datetime(2011, 12, 31)}) == ["t"]
