"""A book that changes all the time, under `auto` and under a scan: the same answers, from first to last.

An operation is a subscription that is added, changed or removed, or an event that is matched. Subscriptions have
weights, scores, tags and life spans; now and then the book under `auto` is compacted, adapted, or saved and loaded.
`make soak` does ten million operations, the slow tests fewer.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import settings

from earmark import Matcher
from earmark.errors import EarmarkError

SOAK, SLOW = 10_000_000, 100_000
LIVE = 30_000
"""Subscriptions, about, once the book is full."""
BEGIN, HOURS = datetime(2024, 1, 1, tzinfo=UTC), 1_000
TENANTS = ("acme", "other", "third")


def condition(random: Random) -> str:
    low = random.randrange(1_000)
    texts = (
        f"a BETWEEN {low} AND {low + random.randrange(40)} AND b > {random.randrange(100)}",
        f"a = {low} AND s = '{random.randrange(50)}'",
        f"b BETWEEN {low % 90} AND {low % 90 + 9} AND c < {random.random():.3f}D",
        f"a > {low} AND c >= {random.random():.3f}D OR b = {low % 100}",
    )
    return texts[random.randrange(len(texts))]


def moment(random: Random) -> datetime:
    return BEGIN + timedelta(hours=random.randrange(HOURS))


def row(one: int, random: Random) -> dict[str, Any]:
    """A subscription; what it has beside its condition differs."""
    made: dict[str, Any] = {"id": one, "condition": condition(random)}
    if random.random() < 0.5:
        made["weights"] = {name: random.randrange(9) / 4 for name in "abc" if f"{name} " in made["condition"]}
    if random.random() < 0.5:
        made["score"] = random.randrange(20) / 4
    if random.random() < 0.7:
        made["tags"] = {"tenant": random.choice(TENANTS)}
    if random.random() < 0.3:
        made["starts"], made["ends"] = sorted((moment(random), moment(random) + timedelta(hours=HOURS)))
    return made


def event(random: Random) -> dict[str, Any]:
    full = {"a": random.randrange(1_000), "b": random.randrange(100), "c": random.random(), "t": moment(random)}
    full["s"] = str(random.randrange(50))
    return {name: value for name, value in full.items() if name == "t" or random.random() < 0.9}


def compare(auto: Matcher, scan: Matcher, asked: list[dict[str, Any]], random: Random) -> None:
    """Ask both in every way."""
    scope = random.choice((None, {"tenant": random.choice(TENANTS)}))
    threads, k = random.choice((1, 2, 3)), random.choice((1, 5, 100))
    assert auto.match_many(asked, scope=scope, threads=threads).equals(scan.match_many(asked, scope=scope))
    weights = random.choice((None, {"a": 2.0, "c": 0.5}))
    for mode, some in (("exact", asked), ("relaxed", asked[:3])):
        ask: dict[str, Any] = {"k": k, "mode": mode, "weights": weights, "scope": scope}
        assert auto.top_k_many(some, threads=threads, **ask).equals(scan.top_k_many(some, **ask))
        assert auto.top_k(some[0], **ask) == scan.top_k(some[0], **ask)
    for one in asked[:5]:
        assert auto.match(one, scope=scope) == scan.match(one, scope=scope)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_auto_answers_as_a_scan(tmp_path: Path) -> None:
    operations = SOAK if settings.get_current_profile_name() == "soak" else SLOW
    random = Random(23)
    auto, scan = Matcher(time="t"), Matcher("scan", time="t")
    live: list[int] = []
    plans: set[tuple[str, int]] = set()
    following, done, compared = 0, 0, 0
    while done < operations:
        count = random.choice((1, 1, 1, 30, 1_000))
        kind = random.random()
        if kind < (0.6 if len(live) < LIVE else 0.3):
            rows = [row(following + i, random) for i in range(count)]
            for book in (auto, scan):
                book.add_many(rows, progress=False) if count > 1 else book.add(**rows[0])
            live += range(following, following + count)
            following += count
        elif kind < 0.85 and len(live) > 2 * count:
            gone = [live.pop(random.randrange(len(live))) for _ in range(count)]
            for book in (auto, scan):
                book.remove_many(gone) if count > 1 else book.remove(gone[0])
        elif live:
            count = min(count, 5, len(live))
            for one in random.sample(live, count):
                new = row(one, random)
                if random.random() < 0.5:
                    new = {name: value for name, value in new.items() if name != "condition" and name != "weights"}
                for book in (auto, scan):
                    book.update(**new)
        done += count
        if done > compared:
            compared = done + 2_000
            asked = [event(random) for _ in range(20)]
            done += len(asked)
            compare(auto, scan, asked, random)
            plans |= {(plan.index, plan.subscriptions) for plan in auto.plan()}
            match random.randrange(30):
                case 0:
                    auto.compact()
                case 1:
                    auto.adapt(asked)
                case 2:
                    auto.save(tmp_path / "book")
                    auto = Matcher.load(tmp_path / "book")
                case 3:
                    with pytest.raises(EarmarkError):  # all or none
                        auto.add_many([row(following, random), {"id": following + 1, "condition": "a >"}])
    auto.check()
    assert sorted(live) == sorted(auto) and list(auto) == list(scan)
    assert len(plans) > 1, "nothing was ever planned again"
