"""numpy's day 10000-01-01 became the number of its microseconds, and was compared as an integer."""

from __future__ import annotations

import numpy as np
import pytest

from earmark import Predicate, SubscriptionError


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us"])
def test_it_is_refused(unit: str) -> None:
    with pytest.raises(SubscriptionError, match="is of no type a condition can hold"):
        Predicate("a", "=", np.datetime64("10000-01-01", unit))
