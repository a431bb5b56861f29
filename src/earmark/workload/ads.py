"""Ad campaigns and visitors: a made-up market for the demo and the examples, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

CITIES = ["Athens", "Berlin", "Cairo", "Delhi", "Lagos", "Lima", "Lisbon", "Madrid", "Osaka", "Oslo", "Paris", "Quito"]
INTERESTS = ["books", "bikes", "cars", "cooking", "films", "games", "garden", "music", "running", "shoes", "travel"]
TENANTS = ["acme", "birch", "cobalt"]


def campaigns(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Subscriptions: whom each campaign wants to reach, how much each trait is worth, and a bid as static score."""
    random = Random(f"campaigns {seed}")
    for number in range(count):
        youngest = random.randint(18, 60)
        parts = {
            "age": f"age BETWEEN {youngest} AND {youngest + random.randint(3, 15)}",
            "credit_score": f"credit_score > {random.randint(500, 800)}",
            "visits": f"visits >= {random.randint(1, 30)}",
            "city": f"city IN ({', '.join(repr(c) for c in random.sample(CITIES, random.randint(1, 3)))})",
            "interest": f"interest = '{random.choice(INTERESTS)}'",
            "income": f"income BETWEEN {random.randint(20, 60)}e3 AND {random.randint(60, 200)}e3",
            "blocked": "NOT blocked",
        }
        chosen = random.sample(sorted(parts), random.randint(2, 4))
        yield {
            "id": f"ad-{number}",
            "condition": " AND ".join(parts[name] for name in chosen),
            "weights": {name: random.randint(1, 10) / 10 for name in chosen},
            "score": round(random.random(), 2),
            "tags": {"tenant": random.choice(TENANTS)},
        }


def visitors(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Events: who comes by. Now and then something about a visitor is not known."""
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
