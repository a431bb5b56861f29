"""Drift was an average over all events since the plan: after millions of cheap ones, dear ones did not show."""

from __future__ import annotations

import threading
from typing import Any

from earmark import Matcher
from earmark.index import driver
from earmark.index.auto.plan import LEAST_WORK
from earmark.index.contract import Work

COMPARED = 2
"""The place of comparisons among the counters."""


def planned() -> Any:
    m = Matcher(index_options={"among": ["be_star_tree"]})
    m.add_many([(i, f"a BETWEEN {i} AND {i + 9} AND b > {i % 7}") for i in range(600)], progress=False)
    index = m._version.segments[0].index
    assert index is not None
    object.__setattr__(index.plan, "work", LEAST_WORK)
    return index


def counted(work: float) -> list[int]:
    """Counters of this much work."""
    one = [0] * driver.COUNTERS
    one[COMPARED] = 1
    one[COMPARED] = round(work / Work.counted(one).nanoseconds)
    return one


def test_events_of_long_ago_are_forgotten() -> None:
    index = planned()
    index._observe(counted(1e6 * LEAST_WORK), 1_000_000)
    assert not index.has_drifted
    for _ in range(40):
        index._observe(counted(256 * 8 * LEAST_WORK), 256)
    assert index.has_drifted and 4 < index.drift < 8
    for _ in range(60):
        index._observe(counted(256 * LEAST_WORK), 256)
    assert not index.has_drifted


def test_a_few_dear_events_are_no_drift() -> None:
    index = planned()
    index._observe(counted(4_096 * LEAST_WORK), 4_096)
    index._observe(counted(100 * 8 * LEAST_WORK), 100)
    assert not index.has_drifted


def test_each_call_is_observed_by_its_own_counters(monkeypatch: Any) -> None:
    """They were read from the index, where another thread may have left those of its call."""
    m = Matcher(index_options={"among": ["be_star_tree"]})
    m.add_many([(i, f"a BETWEEN {i} AND {i + 9} AND b > {i % 7}") for i in range(600)], progress=False)
    index: Any = m._version.segments[0].index
    object.__setattr__(index.plan, "work", LEAST_WORK)
    observed: list[float] = []
    monkeypatch.setattr(
        index, "_observe", lambda counted, events, k=0, alone=False: observed.append(Work.counted(counted).matched)
    )
    monkeypatch.setattr(driver, "EVERY", 1)
    problems: list[BaseException] = []

    def ask(value: int, matched: int) -> None:
        try:
            for _ in range(300):
                assert len(m.match_many([{"a": value, "b": 9}] * 3, threads=1)) == 3 * matched
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=ask, args=one) for one in ((300, 10), (0, 1), (-5, 0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert sorted(observed) == [0] * 300 + [3] * 300 + [30] * 300
