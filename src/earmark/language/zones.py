"""Time zones by name, with UTC available even where the machine has no zone data."""

from __future__ import annotations

import re
from datetime import timedelta, timezone, tzinfo
from functools import lru_cache

from earmark.errors import EarmarkError

_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d{2})\Z")


def zone_of(name: str) -> tzinfo:
    """The zone called `name`: 'UTC', 'Z', an offset such as '+02:00', or a region such as 'Europe/Paris'."""
    if not isinstance(name, str):
        raise EarmarkError(f"expected the name of a time zone, such as 'Europe/Paris', got {name!r}")
    return _zone_of(name)


@lru_cache(maxsize=256)
def _zone_of(name: str) -> tzinfo:
    if name in ("UTC", "Z"):
        return timezone.utc  # noqa: UP017 - one spelling for all supported versions
    if found := _OFFSET.match(name):
        hours, minutes = int(found[2]), int(found[3])
        if (hours < 18 and minutes < 60) or (hours, minutes) == (18, 0):
            offset = timedelta(hours=hours, minutes=minutes)
            return timezone(offset if found[1] == "+" else -offset)
    from zoneinfo import ZoneInfo

    try:
        if re.fullmatch(r"[A-Za-z]+(/[A-Za-z0-9_+-]+){1,2}", name):
            return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        pass
    raise EarmarkError(f"{name!r} is not a time zone known here; give 'UTC', '+02:00' or a region like 'Europe/Paris'")
