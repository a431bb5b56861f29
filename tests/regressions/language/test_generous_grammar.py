"""sqlglot's grammar is generous; each of these was accepted though Spark refuses it."""

from __future__ import annotations

import pytest

from earmark import SubscriptionError, parse


@pytest.mark.parametrize(
    "sql",
    [
        "a NOT IS TRUE",
        "a NOT NULL",
        "a BETWEEN 1 2",
        "a BETWEEN NULL 2 OR b",
        "a IN (, 3)",
        "a IN (3, , 4)",
        "OR (b)",
        "a = 1 OR OR (b)",
        "b IS NOT TRUE IS TRUE",
        "b IS DISTINCT FROM TRUE IS NOT TRUE",
        "a NOT IN (3) IS NOT TRUE",
        "a NOT BETWEEN 1 AND 2 IS NOT TRUE",
        "a = . 5",
        "s = +'x'",
        "+a = 3",
        "a ! IN (3)",
    ],
)
def test_it_is_refused(sql: str) -> None:
    with pytest.raises(SubscriptionError):
        parse(sql)
