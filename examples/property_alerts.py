"""Property alerts: which saved searches does a new listing match, and who should hear of it first?

    python examples/property_alerts.py

Saved searches are subscriptions, listings are events. Weights say what a buyer cares about, so that the best searches
come first; `explain` says why, and `near_misses` who narrowly missed it.
"""

from __future__ import annotations

from datetime import date

import earmark

SEARCHES = [
    ("ann", "city = 'Oslo' AND rooms >= 3 AND price <= 600000", {"rooms": 2.0, "price": 1.0}),
    ("bob", "city IN ('Oslo', 'Bergen') AND price BETWEEN 200000 AND 450000", None),
    ("cho", "city = 'Oslo' AND (has_garden OR floor = 0) AND price < 700000", {"has_garden": 3.0}),
    ("dev", "area > 120 AND price / area < 5000", None),  # refused: a condition compares, it does not calculate
    ("eve", "city LIKE 'Ber%' AND built >= DATE '2000-01-01'", None),
]

LISTINGS = [
    {"city": "Oslo", "rooms": 4, "price": 590_000, "area": 105.5, "has_garden": True, "floor": 1},
    {"city": "Bergen", "rooms": 2, "price": 310_000, "area": 58.0, "built": date(2014, 6, 1)},
    {"city": "Oslo", "rooms": 3, "price": 640_000, "area": 90.0, "has_garden": False, "floor": 0},
]


def main() -> None:
    matcher = earmark.Matcher()
    for buyer, condition, weights in SEARCHES:
        try:
            matcher.add(buyer, condition, weights=weights)
        except earmark.SubscriptionError as problem:
            print(f"the search of {buyer} was refused: {problem}")
    for listing in LISTINGS:
        print(f"\n{listing['city']}, {listing['rooms']} rooms, {listing['price']:,}")
        for match in matcher.top_k(listing, 3):
            print(f"  tell {match.id} (score {match.score:g})")
        for miss in matcher.near_misses(listing):
            print(f"  {miss}")
    print("\nWhy the first listing is for cho:")
    print(matcher.explain("cho", LISTINGS[0]))


if __name__ == "__main__":
    main()
