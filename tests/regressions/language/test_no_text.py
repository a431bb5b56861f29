"""A condition that is no text escaped as a TypeError from the error message itself."""

from __future__ import annotations

import pytest

from earmark import Matcher, SubscriptionError, parse


@pytest.mark.parametrize("condition", [None, 3, b"a = 1"])
def test_it_is_refused(condition: object) -> None:
    with pytest.raises(SubscriptionError, match="expected a condition as a string or as Predicates"):
        parse(condition)  # type: ignore[arg-type]
    with pytest.raises(SubscriptionError, match="expected a condition as a string or as Predicates"):
        Matcher().add("one", condition)  # type: ignore[arg-type]
