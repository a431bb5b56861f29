"""A matcher made with a zone but without declared attributes read naive times in UTC: an empty schema was false."""

from __future__ import annotations

from datetime import UTC, datetime

from earmark import Matcher
from earmark.engine.version import Version
from earmark.keys.schema import Schema


def test_the_zone_is_kept() -> None:
    assert Version.empty(Schema("Europe/Paris")).schema.zone_name == "Europe/Paris"
    m = Matcher(zone="Europe/Paris")
    m.add("summer", "t = TIMESTAMP '2024-07-01 12:00:00'")
    assert m.match({"t": datetime(2024, 7, 1, 10, tzinfo=UTC)}) == ["summer"]
    assert m.match({"t": datetime(2024, 7, 1, 12)}) == ["summer"]
