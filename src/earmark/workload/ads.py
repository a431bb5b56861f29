"""Ad campaigns and visitors: a made-up market for the demo and the examples, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

CITIES = ["Athens", "Berlin", "Cairo", "Delhi", "Lagos", "Lima", "Lisbon", "Madrid", "Osaka", "Oslo", "Paris", "Quito"]
INTERESTS = ["books", "bikes", "cars", "cooking", "films", "games", "garden", "music", "running", "shoes", "travel"]
TENANTS = ["acme", "birch", "cobalt"]


@dataclass(frozen=True, slots=True)
class Campaigns:
    """Subscriptions: the visitors a campaign wants, how much each trait is worth, and a bid as static score."""

    count: int
    seed: int = 1
    least: int = 2
    """The fewest traits that a campaign asks for; the most are two more. There are seven."""

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        random = Random(f"campaigns {self.seed}")
        for number in range(self.count):
            traits = sorted(random.sample(_NAMES, self.least + _below(random, 3)), key=_NAMES.index)
            yield {
                "id": f"ad-{number}",
                "condition": " AND ".join([_TRAITS[name](random) for name in traits]),
                "weights": {name: (1 + _below(random, 10)) / 10 for name in traits},
                "score": _below(random, 101) / 100,
                "tags": {"tenant": TENANTS[_below(random, len(TENANTS))]},
            }


def visitors(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Draw events: the visitors. Some of them have an unknown trait."""
    random = Random(f"visitors {seed}")
    for _ in range(count):
        visitor = {
            "age": random.randint(18, 75),
            "credit_score": random.randint(400, 850),
            "visits": int(random.expovariate(0.1)),
            "city": random.choice(CITIES),
            "interest": random.choice(INTERESTS),
            "income": round(random.lognormvariate(10.9, 0.5), 2),
            "blocked": random.random() < 0.05,
        }
        if random.random() < 0.2:
            del visitor[random.choice(sorted(visitor))]
        yield visitor


def _below(random: Random, limit: int) -> int:
    """Draw a number from 0 to limit - 1 (four times quicker than randrange)."""
    return int(random.random() * limit)


def _age(random: Random) -> str:
    youngest = 18 + _below(random, 43)
    return f"age BETWEEN {youngest} AND {youngest + 2 + _below(random, 9)}"


def _city(random: Random) -> str:
    cities = random.sample(CITIES, 1 + _below(random, 2))
    return "city IN ('" + "', '".join(cities) + "')"


def _income(random: Random) -> str:
    least = 20 + _below(random, 81)
    return f"income BETWEEN {least}e3 AND {least + 10 + _below(random, 31)}e3"


_TRAITS: dict[str, Callable[[Random], str]] = {
    "age": _age,
    "city": _city,
    "interest": lambda random: f"interest = '{INTERESTS[_below(random, len(INTERESTS))]}'",
    "credit_score": lambda random: f"credit_score > {600 + _below(random, 231)}",
    "income": _income,
    "visits": lambda random: f"visits >= {5 + _below(random, 46)}",
    "blocked": lambda random: "NOT blocked",
}
_NAMES = list(_TRAITS)
