"""`top_k(index=…)`, another index than the matcher's own: when it is built, how long it is kept, and what goes wrong.

That every index gives the same answers so is in tests/contract.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep
from typing import Any

import pytest

from earmark import EarmarkError, Matcher
from earmark import index as indexes
from earmark.engine import state

EVENT = {"a": 5, "b": 1}


def matcher(*conditions: str) -> Matcher:
    """A Matcher whose subscriptions are numbered from 0."""
    made = Matcher()
    made.add_many(enumerate(conditions))
    return made


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the indexes that a state builds, as it builds them."""
    built: list[str] = []

    def noted(name: str) -> Any:
        build = indexes.builder(name)
        return lambda table: built.append(name) or build(table)

    monkeypatch.setattr(state, "builder", noted)
    return built


def test_it_is_built_once_and_kept_until_something_changes(builds: list[str]) -> None:
    m = matcher("a > 3", "a > 4 AND b = 1", "b = 2")
    best = [(1, 2.0), (0, 1.0)]
    for _ in range(2):
        assert m.top_k(EVENT, index="sopt_r_tree") == best
        assert m.top_k_many([EVENT], index="sopt_r_tree").column("subscription").to_pylist() == [1, 0]
        assert m.top_k(EVENT, index="vcr", mode="relaxed") == best
    assert builds == ["sopt_r_tree", "vcr"]
    m.add(3, "a = 5 AND b = 1", score=1.0)
    assert m.top_k(EVENT, index="vcr") == [(3, 3.0), *best]
    m.remove(1)
    assert m.top_k(EVENT, index="vcr") == [(3, 3.0), (0, 1.0)]
    assert builds == ["sopt_r_tree", "vcr", "vcr", "vcr"]


def test_the_own_index_is_not_built_again(builds: list[str]) -> None:
    m = Matcher("mics", index_options={"most": 1})
    m.add(0, "a > 3")
    own = m._state.index
    assert m.top_k(EVENT, index="mics") == m.top_k(EVENT, index=None) == [(0, 1.0)]
    assert m._state.ranked_by("mics") is own
    assert builds == []


def test_a_scope_and_the_removed_count() -> None:
    m = Matcher()
    m.add_many([(i, "a > 3") for i in range(2_000)])
    m.add(2_000, "a > 4", tags={"tenant": "acme"})
    m.remove_many(range(1_990))
    for name in indexes.names():
        assert [one for one, _ in m.top_k(EVENT, 3, index=name)] == [1_990, 1_991, 1_992]
        assert m.top_k(EVENT, 3, index=name, scope={"tenant": "acme"}) == [(2_000, 1.0)]
        assert m.top_k(EVENT, 3, index=name, scope={"tenant": "nobody"}) == []


@pytest.mark.parametrize("name", ["b_tree", "", 3, ["scan"]])
def test_an_unknown_index_gets_the_sentence_of_the_constructor(name: Any) -> None:
    with pytest.raises(EarmarkError) as wanted:
        Matcher(name)
    for ask in (matcher("a > 3").top_k, lambda event, index: matcher("a > 3").top_k_many([event], index=index)):
        with pytest.raises(EarmarkError) as found:
            ask(EVENT, index=name)
        assert str(found.value) == str(wanted.value)


def test_threads_that_ask_at_once_build_it_once(monkeypatch: pytest.MonkeyPatch, builds: list[str]) -> None:
    m = matcher(*(f"a > {i}" for i in range(50)))
    noted, begun = state.builder, Barrier(4)

    def slow(name: str) -> Any:
        build = noted(name)
        return lambda table: sleep(0.05) or build(table)

    monkeypatch.setattr(state, "builder", slow)

    def ask() -> list[Any]:
        begun.wait()
        return m.top_k({"a": 3}, index="scan")

    with ThreadPoolExecutor(4) as pool:
        answers = [one.result() for one in [pool.submit(ask) for _ in range(4)]]
    assert answers == [[(0, 1.0), (1, 1.0), (2, 1.0)]] * 4
    assert builds == ["scan"]
