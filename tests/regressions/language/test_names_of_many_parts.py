"""A name of two thousand parts with dots between them escaped as a RecursionError."""

from __future__ import annotations

import pytest

from earmark import Matcher, SubscriptionError, parse
from earmark.language.tokens import MAX_PARTS


@pytest.mark.parametrize("parts", [MAX_PARTS + 1, 400, 2_000, 10_000])
@pytest.mark.parametrize("sql", ["{} = 1", "1 = {}", "a = {}", "{}", "NOT {} IN (1)", "`x`.{} IS NULL"])
def test_it_is_refused_with_a_sentence(sql: str, parts: int) -> None:
    name = "a" + ".a" * (parts - 1)
    with pytest.raises(SubscriptionError, match="at most 40 parts"):
        parse(sql.format(name))
    with pytest.raises(SubscriptionError, match="at most 40 parts"):
        Matcher().add("x", sql.format(name))


def test_a_name_of_as_many_parts_as_allowed() -> None:
    name = "a" + ".a" * (MAX_PARTS - 1)
    matcher = Matcher()
    matcher.add("x", f"{name} = 1")
    assert matcher.match({name: 1}) == ["x"]
