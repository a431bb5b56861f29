"""Fraud rules: a day of card payments against a book of rules, which is checked before it goes live and then changed.

    python examples/fraud_rules.py [--payments N]

The audit finds redundant rules and rules that can never match; `match_many` takes the payments as columns; a rule is
updated while the matcher is in use.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import earmark

RULES = [
    ("not at home", "amount > 5000 AND country != home"),  # refused: it compares two attributes
    ("large abroad", "amount > 5000 AND is_abroad"),
    ("night gambling", "hour BETWEEN 0 AND 4 AND category = 'gambling'"),
    ("card testing", "amount < 2 AND tries_last_hour >= 4"),
    ("new device", "device_age_days < 3 AND amount > 200"),
    ("new device, large", "device_age_days < 3 AND amount > 2000 AND is_abroad"),
    ("no device", "device_age_days IS NULL AND amount >= 1000"),
    ("typo", "amount > 9000 AND amount < 900"),
]


def payments(count: int) -> pa.Table:
    """Make up payments, the same on every machine."""
    random = np.random.default_rng(7)
    device = random.integers(0, 400, count).astype(float)
    return pa.table(
        {
            "amount": np.round(random.lognormal(4, 1.6, count), 2),
            "hour": random.integers(0, 24, count),
            "category": random.choice(["food", "travel", "gambling", "fuel"], count),
            "is_abroad": random.random(count) < 0.1,
            "tries_last_hour": random.poisson(0.8, count),
            "device_age_days": pa.array(device, mask=random.random(count) < 0.05),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--payments", type=int, default=20_000, metavar="N")
    count = parser.parse_args().payments

    matcher = earmark.Matcher("blocks")
    for name, condition in RULES:
        try:
            matcher.add(name, condition)
        except earmark.EarmarkError as problem:
            print(f"refused: {problem}")
    print(matcher.audit())
    matcher.remove_many(matcher.never_matching())

    day = payments(count)
    hits = matcher.match_many(day)
    print(f"\n{count:,} payments, {hits.num_rows:,} hits on {len(pc.unique(hits['event'])):,} of them")
    for row in hits.group_by("subscription").aggregate([("event", "count")]).sort_by("subscription").to_pylist():
        print(f"  {row['subscription']:<20}{row['event_count']:>6,}")

    matcher.update("new device", "device_age_days < 3 AND amount > 500")  # it had too many matches
    again = matcher.match_many(day)
    print(f"with a higher threshold for new devices: {again.num_rows:,} hits")
    first = again.slice(0, 1).to_pylist()[0]
    print(matcher.explain(first["subscription"], day.slice(first["event"], 1).to_pylist()[0]))


if __name__ == "__main__":
    main()
