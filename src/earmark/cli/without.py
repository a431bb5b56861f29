"""The demo's question without earmark, by what the standard library has: a loop over all ads, and SQLite."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Visitor = Mapping[str, Any]
Trait = tuple[str, float, float, tuple[str, ...]]
"""An attribute, its least and greatest value, or else the words it may be."""
Ask = Callable[[Visitor], list[int]]
"""The numbers of the ads that a visitor matches."""

PART = re.compile(r"NOT (\w+)|(\w+) (?:BETWEEN (\S+) AND (\S+)|>(=?) (\S+)|(?:=|IN) (\(.*?\)|'.*?'))")
WORD = re.compile("'(.*?)'")
ENDLESS = 1e30
RANGES = ("age", "credit_score", "income", "visits")
ANY, NONE = "*", "-"
"""The word of an ad that takes every value; a word that no ad has."""


def traits(condition: str) -> list[Trait]:
    """What a condition of the demo's ads asks of a visitor."""
    out: list[Trait] = []
    for denied, name, least, most, equal, above, words in PART.findall(condition):
        if denied:
            out.append((denied, False, False, ()))
        elif words:
            out.append((name, 0, 0, tuple(WORD.findall(words))))
        else:  # whole numbers where it is `>`
            out.append((name, float(least or int(above) + (not equal)), float(most or ENDLESS), ()))
    return out


def loop(ads: Sequence[list[Trait]]) -> Ask:
    """Look at every ad, up to the first trait that the visitor lacks."""

    def ask(visitor: Visitor) -> list[int]:
        found = []
        for number, wanted in enumerate(ads):
            for name, least, most, words in wanted:
                value = visitor.get(name)
                if value is None or (value not in words if words else not least <= value <= most):
                    break
            else:
                found.append(number)
        return found

    return ask


def sqlite(ads: Sequence[list[Trait]]) -> Ask:
    """A row for each ad and city, and one index that has all a query needs: first interest and city, then ranges."""
    ranges = [f"{name}_{end}" for name in RANGES for end in ("lo", "hi")]
    columns = ["interest", "city", *ranges, "not_blocked", "number"]
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE TABLE ad ({', '.join(columns)})")
    database.executemany(f"INSERT INTO ad VALUES ({', '.join('?' * len(columns))})", _rows(ads))
    database.execute(f"CREATE INDEX by_all ON ad ({', '.join(columns)})")
    holds = " AND ".join(f"{name}_lo <= ? AND {name}_hi >= ?" for name in RANGES)
    query = f"SELECT number FROM ad WHERE interest IN (?, ?) AND city IN (?, ?) AND {holds} AND not_blocked <= ?"

    def ask(visitor: Visitor) -> list[int]:
        words = [word for name in ("interest", "city") for word in (ANY, visitor.get(name, NONE))]
        values = [visitor.get(name, -1) for name in RANGES for _ in range(2)]  # every range begins above -1
        return sorted(row[0] for row in database.execute(query, [*words, *values, visitor.get("blocked") is False]))

    return ask


def _rows(ads: Sequence[list[Trait]]) -> Iterator[list[Any]]:
    for number, wanted in enumerate(ads):
        by_name = {name: (least, most, words) for name, least, most, words in wanted}
        everything = (-ENDLESS, ENDLESS, (ANY,))
        ranges = [end for name in RANGES for end in by_name.get(name, everything)[:2]]
        (interest,) = by_name.get("interest", everything)[2]
        for city in by_name.get("city", everything)[2]:
            yield [interest, city, *ranges, "blocked" in by_name, number]
