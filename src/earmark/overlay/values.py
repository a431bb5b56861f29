"""Values of events as messages have them: what a Matcher would take, as what can be sent.

Decimal("25.5"), numpy.int64(3)     25.5, 3                 numbers
date(2024, 2, 29)                   "2024-02-29"            dates and timestamps are strings
{"lo": 1, "hi": 9}, (1, 9)          Interval(1, 9)          a pair on the wire
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from earmark.errors import EarmarkError, shortened
from earmark.events.mappings import Interval, as_interval

_SENT = frozenset({bool, int, float, str, type(None)})


def sent_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event with values that can be sent, or raise an EarmarkError that names an attribute."""
    return {name: value if type(value) in _SENT else _sent_value(name, value) for name, value in event.items()}


def _sent_value(name: str, value: Any) -> Any:
    value = as_interval(value)
    if isinstance(value, tuple | list) and len(value) == 2:
        return Interval(*(_sent_end(name, end) for end in value))
    return _sent_end(name, value)


def _sent_end(name: str, value: Any) -> Any:
    if type(value) in _SENT:
        return value
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, np.bool_ | np.integer | np.floating):
        return value.item()
    if isinstance(value, Decimal):
        return _number(name, value)
    raise EarmarkError(
        f"expected a number, a string, a boolean, NULL, a date, a timestamp or an interval for {name!r}, "
        f"got {shortened(repr(value), 60)}"
    )


def _number(name: str, value: Decimal) -> int | float:
    if value.is_nan():
        return math.nan
    is_whole = value.copy_abs() < 1 << 64 and value == value.to_integral_value()
    number = int(value) if is_whole else float(value)
    if number == value or Decimal(repr(number)) == value:
        return number
    raise EarmarkError(f"expected a decimal that a double can carry for {name!r}, got {shortened(str(value), 60)}")
