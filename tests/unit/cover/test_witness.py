"""The event that proves that a subscription is needed can be given to the matcher: it matches that one alone."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from math import inf
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark import Matcher
from earmark.cover.cover_index import subsumed
from earmark.cover.exact import Verdict

TYPES = {
    "i": "integer",
    "f": "float",
    "b": "boolean",
    "s": "string",
    "d": "date",
    "t": "timestamp",
    "c": "decimal(4,2)",
}
LITERALS = {
    "i": ["-7", "0", "3", "4", "9223372036854775807", "-9223372036854775808"],
    "f": ["-1.5D", "0D", "2.25D", "1e300D", "3D"],
    "s": ["''", "'a'", "'ab'", "'b'", "'п'", "'a\\0'", "'Oslo'", "'\U0010ffff'"],
    "d": ["DATE '0001-01-01'", "DATE '1969-12-31'", "DATE '2024-02-29'", "DATE '9999-12-31'"],
    "t": ["TIMESTAMP '1965-01-01 00:00:00'", "TIMESTAMP '2024-01-01 12:00:00'", "TIMESTAMP '9999-12-31 23:59:59'"],
    "c": ["-99.99", "0", "1.25", "99.99"],
}
IN_CALENDAR = " AND (d BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' OR d IS NULL)"


def predicate(random: Random) -> str:
    name = random.choice(list(TYPES))
    kind = random.random()
    if kind < 0.2:
        return f"{name} IS {random.choice(('', 'NOT '))}NULL"
    if name == "b":
        return random.choice(("b", "NOT b"))
    literals = LITERALS[name]
    if kind < 0.35:
        some = random.sample(literals, 2)
        return f"{name} {random.choice(('', 'NOT '))}IN ({', '.join(some)})"
    if kind < 0.45 and name == "s":
        return f"s LIKE '{random.choice(('a', 'п', 'Os', 'b'))}%'"
    return f"{name} {random.choice(('<', '<=', '=', '>=', '>', '!='))} {random.choice(literals)}"


def condition(random: Random) -> str:
    clauses = [
        " AND ".join(predicate(random) for _ in range(random.choice((1, 1, 2, 3))))
        for _ in range(random.choice((1, 1, 2)))
    ]
    return " OR ".join(f"({clause})" for clause in clauses)


@given(seed=st.integers(0, 2**32), count=st.integers(1, 8))
def test_it_matches_the_one_that_is_needed_and_no_other(seed: int, count: int) -> None:
    """Days and moments that Python has no name for are kept out: no event given as a mapping can have them."""
    random = Random(seed)
    m = Matcher(attributes=TYPES)
    for i in range(count):
        m.add(i, f"({condition(random)}){IN_CALENDAR}")
    for i in range(count):
        found = subsumed(m, i)
        if found.verdict is Verdict.NEEDED:
            assert found.witness is not None and found.witness.keys() <= TYPES.keys()
            assert m.match(found.witness) == [i]
        else:
            assert found.witness is None


def needed(*conditions: str, types: dict[str, str] | None = None) -> dict[str, object]:
    """The witness for the first, given the others."""
    m = Matcher(attributes=types or {})
    m.add_many(list(enumerate(conditions)))
    found = subsumed(m, 0)
    assert found.verdict is Verdict.NEEDED and found.witness is not None
    assert m.match(found.witness) == [0]
    return found.witness


def test_values_that_read_well() -> None:
    assert needed("x > -50", "x BETWEEN -3 AND 7")["x"] in (-4, 8)
    assert needed("x < 1000 OR x >= 0") == {"x": 0}
    assert needed("x > 2.5D AND y > 3", types={"x": "float"}) == {"x": 3.0, "y": 4}
    assert needed("x > 2.5D AND x < 2.75D", types={"x": "float"}) == {"x": float(np.nextafter(2.5, 3))}
    assert needed("x < -1e300D", "x > -1e305D", types={"x": "float"})["x"] == -1e305
    assert needed("x > 1.7976931348623157E308D", types={"x": "float"}) == {"x": inf}
    assert needed("x = 1.5", types={"x": "decimal(9,2)"}) == {"x": Decimal("1.5")}
    assert needed("NOT b") == {"b": False}
    assert needed("d >= DATE '2024-05-01'", "d = DATE '2024-05-01'") == {"d": date(2024, 5, 2)}
    when = datetime(2024, 5, 1, tzinfo=timezone.utc)  # noqa: UP017
    assert needed("t >= TIMESTAMP '2024-05-01 00:00:00'") == {"t": when}
    assert needed("x IS NULL OR x > 5", "x > 5") == {"x": None}
    assert needed("x > 5", "x > 5 AND y = 3")["y"] in (None, 0, 1, 2, 4)


def test_texts_between_constants() -> None:
    assert needed("s = 'Oslo'") == {"s": "Oslo"}
    assert needed("s > 'Oslo'", "s = 'Rome'", "s > 'Rome'") == {"s": "Osloa"}
    assert needed("s > 'a' AND s < 'aa'") == {"s": "a0"}
    assert needed("s > 'a' AND s < 'a '") == {"s": "a\0"}
    assert needed("s LIKE 'п%'", "s = 'п'")["s"].startswith("п")  # type: ignore[attr-defined]
    assert needed("s < 'п'", "s LIKE 'a%'", "s = ''", "s > '' AND s < 'a'", "s > 'b'") == {"s": "b"}
    assert needed("s NOT IN ('', 'a')") == {"s": "0"}


def test_an_attribute_of_no_known_type() -> None:
    found = needed("x IS NOT NULL", "y = 1")
    assert found["x"] == 0 and found["y"] != 1


def test_days_beyond_the_calendar_are_told_as_texts() -> None:
    m = Matcher(attributes={"d": "date"})
    m.add("far", "d > DATE '9999-12-31'")
    assert subsumed(m, "far").witness == {"d": "10000-01-01"}


@pytest.mark.parametrize("name", ["a.b", "order", "späte Züge"])
def test_names_of_all_kinds(name: str) -> None:
    assert needed(f"`{name}` > 3") == {name: 4}
