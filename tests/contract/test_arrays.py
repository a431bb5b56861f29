"""What every index must answer over any arrays, whatever its options: compared with a plain Python loop.

`test_indexes.py` asks the same of a Matcher; here subscriptions and events are keys, so that every structure meets the
tables it was not made for.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from tests.unit.index.asked import (
    MICS_WAYS,
    PLAIN,
    VCR_GRIDS,
    VCR_WAYS,
    assert_alone,
    assert_answers,
    assert_matches,
    assert_ranks,
    assert_refuses,
    extremes,
    made_of,
    nothings,
)
from tests.unit.made import GREATEST, LEAST, Constraint, Made, Maker, Value, event_arrays, table_arrays

from earmark import index as indexes
from earmark.errors import EarmarkError

SEEDS = range(1) if PLAIN else range(12)
SLOTS, EVENTS = (20, 8) if PLAIN else (150, 40)
FEW = ((1, False), (3, True), (1000, False))

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "auto": [{}, {"among": ["blocks", "be_star_tree"]}, {"among": ["vcr", "segment_tree"], "k": 3}],
    "scan": [{}],
    "blocks": [{}],
    "bitsets": [{}, {"buckets": 1}, {"buckets": 3}, {"buckets": 255}],
    "be_star_tree": [{"capacity": 5, "alpha": 0.0}, {"capacity": 2, "bulk": False}, {"split": "approximate"}],
    "be_tree": [{"capacity": 5}, {"capacity": 2, "bulk": False}],
    "k_index": [{"fanout": fanout, "merge": merge} for fanout in (2, 8, 256) for merge in ("conjunction", "counting")],
    "vcr": [way | VCR_GRIDS[i % len(VCR_GRIDS)] for i, way in enumerate(VCR_WAYS)],
    "mics": MICS_WAYS,
    "interval_tree": [{}, {"leaf": 0}, {"sort": "endpoint", "leaf": 2}, {"intersect": True}],
    "segment_tree": [{}, {"modes": "relaxed"}, {"intersect": True}],
    "r_tree": [{}, {"branching": 2}, {"scored": False, "branching": 4}, {"branching": 64}],
    "sopt_r_tree": [{}, {"branching": 2}, {"branching": 64}],
    "ir_tree": [{}, {"branching": 2, "leaf": 0}, {"branching": 4, "leaf": 2}],
    "cell_table": [{}, {"best": 1}, {"best": 3, "branching": 4}],
}
UPDATABLE = {"scan", "be_star_tree", "be_tree", "vcr", "mics", "ir_tree"}
ADAPTIVE = {"be_star_tree", "be_tree", "mics"}
every_way = pytest.mark.parametrize(
    ("name", "options"),
    [pytest.param(name, one, id=f"{name}-{one}") for name, options in OPTIONS.items() for one in options],
)
every_index = pytest.mark.parametrize("name", OPTIONS)
every_named_index = pytest.mark.parametrize("name", sorted(set(OPTIONS) - {"auto"}))


def test_every_index_is_tried() -> None:
    assert set(OPTIONS) == set(indexes.names())


@lru_cache(maxsize=2)
def random_table(seed: int) -> Made:
    """Any table; in one of three, subscriptions have at most one constraint, which lists alone can answer."""
    made = Maker(seed).made(SLOTS, EVENTS)
    if seed % 3 == 2:
        for subscription in made.subscriptions:
            subscription.clauses = [dict(list(clause.items())[:1]) for clause in subscription.clauses[:1]]
    return made


@every_way
@pytest.mark.parametrize("seed", SEEDS)
def test_answers_on_random_tables(name: str, options: dict[str, Any], seed: int) -> None:
    made = random_table(seed)
    assert_answers(made, indexes.builder(name, options)(table_arrays(made)), FEW)


@lru_cache(maxsize=1)
def ends() -> list[Made]:
    """Intervals and rectangles whose ends are those of the key space, and their neighbours."""
    keys = (LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST)
    pairs = [(lo, hi) for lo in keys for hi in keys if lo <= hi]
    points = [{0: Value(key, key)} for key in keys]
    lines = made_of([{0: Constraint([pair])} for pair in pairs], [{0: Value(*pair)} for pair in pairs] + points + [{}])
    return [lines, extremes()]


@every_way
def test_answers_at_the_ends_of_the_key_space(name: str, options: dict[str, Any]) -> None:
    for made in ends():
        built = indexes.builder(name, options)(table_arrays(made))
        built.check()
        assert_matches(made, built)
        assert_alone(made, built)


@every_index
def test_nothing_to_find(name: str) -> None:
    for made in (*nothings(), Maker(1).made(5, 0)):
        built = indexes.builder(name)(table_arrays(made))
        assert_answers(made, built)
        assert_ranks(made, built, [], 2, False)


@every_named_index
def test_what_an_index_says_of_itself(name: str) -> None:
    made = Maker(1).made(3, 1)
    built = indexes.builder(name)(table_arrays(made))
    assert type(built).__name__ == indexes.INDEXES[name][1]
    assert built.nbytes == sum(array.nbytes for array in built.arrays)
    assert built.is_updatable == (name in UPDATABLE)
    assert built.is_adaptive == (name in ADAPTIVE)
    assert_refuses(built, made)
    if name not in UPDATABLE:
        for change in (built.copy, lambda: built.remove(np.empty(0, np.int32))):
            with pytest.raises(EarmarkError, match=f"the index {type(built).__name__} does not change"):
                change()
    if name not in ADAPTIVE:
        with pytest.raises(EarmarkError, match=f"the index {type(built).__name__} does not adapt to events"):
            built.adapt(event_arrays(made, []))


def test_an_index_that_is_not_there() -> None:
    with pytest.raises(EarmarkError, match="no index called 'scam'"):
        indexes.builder("scam")
