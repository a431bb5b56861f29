"""Options of brokers and policies were taken whatever their type, and failed later, or meant something else."""

from __future__ import annotations

from typing import Any

import pytest

from earmark import EarmarkError
from earmark.overlay.broker import Broker
from earmark.overlay.space import Space

SPACE = Space.even({"a": (0, 255)}, bits=8)
WRONG: list[dict[str, Any]] = [
    *({name: value} for name in ("run", "holding", "holding_bytes") for value in ("x", 3.5, None, -1, True)),
    *({name: value} for name in ("patience", "forget") for value in ("x", -1, True, [1], float("inf"))),
    *({"neighbours": value} for value in ("north", 3, None, [1], [""])),
    *({"advertisements": value} for value in ("yes", 1, None)),
    *({"options": {"withdraw": value}} for value in ("yes", 1, None)),
    *({"policy": "merging", "options": {"space": SPACE, "sample": value}} for value in ("x", {}, [1])),
]


@pytest.mark.parametrize("arguments", WRONG, ids=str)
def test_a_wrong_option_is_refused_with_a_sentence(arguments: dict[str, Any]) -> None:
    if arguments == {"forget": None}:
        pytest.skip("None means never")
    with pytest.raises(EarmarkError, match="expected"):
        Broker("hub", **arguments)
