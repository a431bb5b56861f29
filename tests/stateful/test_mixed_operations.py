"""A book that changes all the time, under `auto` and under a scan: the same answers, from first to last.

An operation is a subscription that is added, changed or removed, or an event that is matched. `make soak` does ten
million, the slow tests fewer.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import settings

from earmark import Matcher

SOAK, SLOW = 10_000_000, 100_000
LIVE = 30_000
"""Subscriptions, about, once the book is full."""


def condition(random: Random) -> str:
    low = random.randrange(1_000)
    texts = (
        f"a BETWEEN {low} AND {low + random.randrange(40)} AND b > {random.randrange(100)}",
        f"a = {low} AND s = '{random.randrange(50)}'",
        f"b BETWEEN {low % 90} AND {low % 90 + 9} AND c < {random.random():.3f}D",
        f"a > {low} AND c >= {random.random():.3f}D OR b = {low % 100}",
    )
    return texts[random.randrange(len(texts))]


def event(random: Random) -> dict[str, Any]:
    full = {"a": random.randrange(1_000), "b": random.randrange(100), "c": random.random()}
    full["s"] = str(random.randrange(50))
    return {name: value for name, value in full.items() if random.random() < 0.9}


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_auto_answers_as_a_scan() -> None:
    operations = SOAK if settings.get_current_profile_name() == "soak" else SLOW
    random = Random(23)
    books = Matcher(), Matcher("scan")
    live: list[int] = []
    following, done, compared = 0, 0, 0
    while done < operations:
        count = random.choice((1, 1, 1, 30, 1_000))
        kind = random.random()
        if kind < (0.6 if len(live) < LIVE else 0.3):
            rows = [(following + i, condition(random)) for i in range(count)]
            for book in books:
                book.add_many(rows, progress=False) if count > 1 else book.add(*rows[0])
            live += range(following, following + count)
            following += count
        elif kind < 0.85 and len(live) > 2 * count:
            gone = [live.pop(random.randrange(len(live))) for _ in range(count)]
            for book in books:
                book.remove_many(gone) if count > 1 else book.remove(gone[0])
        elif live:
            count = min(count, 5)
            for one in random.sample(live, min(count, len(live))):
                text = condition(random)
                for book in books:
                    book.update(one, text)
        done += count
        if done > compared:
            compared = done + 2_000
            asked = [event(random) for _ in range(20)]
            done += len(asked)
            auto, scan = (book.match_many(asked) for book in books)
            assert auto.equals(scan)
            assert books[0].match(asked[0]) == books[1].match(asked[0])
            assert books[0].top_k(asked[1], 5) == books[1].top_k(asked[1], 5)
    books[0].check()
    assert sorted(live) == sorted(books[0])
