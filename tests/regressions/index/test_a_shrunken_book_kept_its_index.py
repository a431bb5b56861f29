"""Most of a book was removed: what was left counted as small beside the segment it replaced, and was not planned."""

from __future__ import annotations

import pytest

from earmark import Matcher
from earmark.index import auto


def test_what_is_left_of_a_book_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "is_ready", lambda name: True)
    monkeypatch.setattr(auto, "SMALL", 50)
    monkeypatch.setattr(auto, "LARGE", 200)
    m = Matcher(index_options={"among": ["blocks", "be_star_tree"]})
    m.add_many([(i, f"a BETWEEN {i} AND {i + 9} AND b > {i % 7}") for i in range(8_000)], progress=False)
    m.remove_many(range(600, 8_000))
    m._compactor.wait()
    (plan,) = m.plan()
    assert plan.subscriptions == 600 and plan.sampled == 200 and plan.work > 0


def test_what_is_small_beside_the_rest_is_not() -> None:
    m = Matcher(index_options={"among": ["blocks"]})  # which takes no inserts: what is added is another segment
    m.add_many([(i, f"a BETWEEN {i} AND {i + 9} AND b > {i % 7}") for i in range(20_000)], progress=False)
    m.add_many([(i, f"a = {i}") for i in range(20_000, 20_400)], progress=False)
    m._compactor.wait()
    beside = m.plan()[-1]
    assert (beside.subscriptions, beside.reason) == (400, "same index as the largest segment")
