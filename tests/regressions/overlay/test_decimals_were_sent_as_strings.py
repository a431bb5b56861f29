"""A decimal that a client published arrived as a string, which no condition on a number matches: nothing was said."""

from __future__ import annotations

import asyncio
import datetime
import math
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from earmark import EarmarkError, Interval
from earmark.overlay.client import AsyncClient
from earmark.overlay.server import BrokerServer
from earmark.overlay.values import sent_event

TOKEN = b"a token that nobody else knows"
ZONE = datetime.timezone(datetime.timedelta(hours=2))
SENT: list[tuple[Any, Any]] = [
    (Decimal("25.5"), 25.5),
    (Decimal("26"), 26),
    (Decimal("0.1"), 0.1),
    (Decimal("9007199254740993"), 9007199254740993),
    (Decimal("Infinity"), float("inf")),
    (np.int64(3), 3),
    (np.uint64(2**64 - 1), 2**64 - 1),
    (np.float64(0.5), 0.5),
    (np.float32(0.5), 0.5),
    (np.bool_(True), True),
    (datetime.date(2024, 2, 29), "2024-02-29"),
    (datetime.datetime(2024, 2, 29, 12, tzinfo=ZONE), "2024-02-29T12:00:00+02:00"),
    ((Decimal("1.5"), None), Interval(1.5, None)),
    ([1, 2], Interval(1, 2)),
    ({"lo": np.int8(1)}, Interval(1, None)),
    (Interval(datetime.date(2024, 1, 1), "2024-02-01"), Interval("2024-01-01", "2024-02-01")),
    (None, None),
]


@pytest.mark.parametrize(("value", "sent"), SENT)
def test_values_are_sent_as_what_they_are(value: Any, sent: Any) -> None:
    event = sent_event({"x": value})
    assert event == {"x": sent} and type(event["x"]) is type(sent)


@pytest.mark.parametrize(
    "value", [Decimal("1234567890123456.78"), Decimal("1e999999999"), b"x", 1j, (1, 2, 3), {"low": 1}, {1}]
)
def test_what_cannot_be_sent_is_refused_by_name(value: Any) -> None:
    with pytest.raises(EarmarkError, match=rf"^expected a .* for 'x', got {re.escape(str(value))[:20]}"):
        sent_event({"x": value})


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("sNaN")])
def test_decimals_that_are_not_a_number(value: Decimal) -> None:
    assert math.isnan(sent_event({"x": value})["x"])


def test_decimals_are_delivered() -> None:
    async def work() -> None:
        async with (
            BrokerServer("a", token=TOKEN) as a,
            AsyncClient(str(a.address), name="c", token=TOKEN) as client,
        ):
            await client.subscribe("warm", "temperature BETWEEN 25 AND 26")
            await client.publish({"temperature": Decimal("25.5")})
            await client.publish({"temperature": np.float64(25.25)})
            events = [await client.get(60), await client.get(60)]
            assert [event and event.event for event in events] == [{"temperature": 25.5}, {"temperature": 25.25}]
            with pytest.raises(EarmarkError, match=r"^expected a number, .* for 'temperature', got b'x'$"):
                await client.publish({"temperature": b"x"})

    asyncio.run(work())
