"""Dates in other digits than ASCII, or with other spaces around them, were accepted; Spark refuses them."""

from __future__ import annotations

import pytest

from earmark import SubscriptionError, parse


@pytest.mark.parametrize("day", ["２０２４-01-05", "\u00a02024-01-05", "2024-01-05\u2003", "٢٠٢٤-01-05"])
def test_it_is_refused(day: str) -> None:
    for kind in ("DATE", "TIMESTAMP"):
        with pytest.raises(SubscriptionError, match="write it as"):
            parse(f"d = {kind} '{day}'")
