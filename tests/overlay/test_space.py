"""A space given by values: conditions and events as ranges, which never miss and do not depend on keys."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from earmark import Interval, Matcher
from earmark.cover.ranges.table import RangeSet
from earmark.errors import EarmarkError
from earmark.overlay.space import Axis, Grid, Space

SPACE = Space(
    (Axis("x", "number", (0, 10, 20, 30)), Axis("s", "string", ("b", "m")), Axis("d", "date", ("2024-01-01",))), 3
)

CONDITIONS = [
    "x BETWEEN 3 AND 12",
    "x = 1e300",
    "x > 9007199254740993",
    "x = 9007199254740993 AND s = 'bb'",
    "x = -18446744073709551616",
    "x IS NULL",
    "NOT (x > 5)",
    "x IN (1, 25) OR s = 'a'",
    "s LIKE 'm%' AND y = 3",
    "s = 'm' AND x < 0",
    "s = 'mz' OR s IS NULL",
    "d < DATE '2023-05-05'",
    "d >= '2024-01-01' AND x >= 30",
    "y > 4 AND x <= 19.5",
    "TRUE",
    "x = 2 OR y = 7",
    "y IS NOT NULL",
    "x > 10 AND x < 3",
]
EVENTS: list[dict[str, Any]] = [
    {},
    {"x": 3},
    {"x": 1e300, "s": "bb"},
    {"x": 2**53 + 1, "s": "bb"},
    {"x": 2**53 + 2},
    {"x": -(2**64), "s": "m"},
    {"x": -1, "s": "m", "y": 3},
    {"x": 19.5, "y": 5},
    {"x": 19.25, "y": 5, "d": "2023-01-01"},
    {"x": 31, "d": "2024-01-01"},
    {"x": Interval(4, 26)},
    {"s": "mz", "y": 3},
    {"x": None, "s": None},
    {"x": float("inf")},
    {"x": float("nan"), "s": "zzz"},
    {"s": "a", "x": 2},
]


def told(grid: Grid, condition: str, event: dict[str, Any]) -> bool:
    """Whether ranges send the event to who asks for the condition."""
    asked = RangeSet(grid.ranges([condition])[0])
    _, first, last = grid.numbers([event])
    cells = np.concatenate([np.arange(a, b + 1) for a, b in zip(first, last, strict=True)])
    return bool(asked.holds(cells).any())


@pytest.mark.parametrize("condition", CONDITIONS)
def test_whatever_matches_is_in_the_ranges(condition: str) -> None:
    grid, m = Grid(SPACE), Matcher(attributes=SPACE.types)
    m.add(1, condition)
    matching = 0
    for event in EVENTS:
        if m.match(event):
            matching += 1
            assert told(grid, condition, event), event
    assert matching or condition == "x > 10 AND x < 3"


def test_a_batch_is_what_its_conditions_are_one_by_one() -> None:
    grid = Grid(SPACE)
    alone = [grid.ranges([condition])[0].pairs() for condition in CONDITIONS]
    assert [one.pairs() for one in grid.ranges(CONDITIONS * 2)] == alone * 2
    strings = [f"s = 'm{i:05}'" for i in range(3_000)]  # so many that keys are relabelled
    assert len({tuple(one.pairs()) for one in grid.ranges(strings)}) == 1
    assert grid.ranges(["s = 'm'"])[0].pairs() == grid.ranges(strings[:1])[0].pairs()
    assert [one.pairs() for one in grid.ranges(CONDITIONS)] == alone


def test_what_does_not_fit_is_everywhere() -> None:
    grid = Grid(SPACE)
    whole = [(0, grid.last)]
    assert grid.ranges(["x = 'text'"])[0].pairs() == whole
    assert grid.ranges(["y = 1", "y = 'text'", "x = 3"])[2].pairs() == grid.ranges(["x = 3"])[0].pairs()
    assert grid.ranges(["x > 10 AND x < 3"])[0].pairs() == []
    for event in ({"x": "text"}, {"d": "no day"}, {"s": 3}):
        start, first, last = grid.numbers([event, {"x": 1}])
        assert len(start) == 3
        sizes = sum((last - first + 1)[start[0] : start[1]])
        assert sizes == 8, event  # all cells of its axis
        assert sum((last - first + 1)[start[1] : start[2]]) == 1
    assert grid.numbers([[]])[2].tolist() == [grid.last]  # type: ignore[list-item]


def test_values_beyond_the_cuts_share_the_outer_cells() -> None:
    grid = Grid(Space.even({"x": (0, 100), "y": (0.0, 1.0)}, 4))
    for low, high in ((-1e9, -5), (105, 1e18)):
        _, first, _ = grid.numbers([{"x": low, "y": 0.5}, {"x": high, "y": 0.5}])
        assert first[0] == first[1]
        assert told(grid, f"x = {low}", {"x": high})


def test_integers_have_cells_of_their_own_where_there_are_enough() -> None:
    assert Space.even({"x": (0, 5)}, 3).axes[0].cuts == (1, 2, 3, 4, 5)
    assert Space.even({"x": (7, 7)}, 3).axes[0].cuts == ()
    cuts = Space.even({"x": (0, 99)}, 3).axes[0].cuts
    assert len(cuts) == 6 and list(cuts) == sorted(cuts)


def test_the_number_is_of_the_description() -> None:
    again = Space.from_record(json.loads(json.dumps(SPACE.record)))
    assert again == SPACE and again.number == SPACE.number
    others = [
        Space(SPACE.axes[:2], 3),
        Space(SPACE.axes[::-1], 3),
        Space(SPACE.axes, 4),
        Space(SPACE.axes, 3, "Europe/Oslo"),
        Space((Axis("x", "number", (0, 10, 20, 31)), *SPACE.axes[1:]), 3),
    ]
    assert len({one.number for one in [SPACE, *others]}) == 6
    assert all(1 <= one.number < 2**63 for one in others)


def test_a_space_for_subscriptions_like_these() -> None:
    batch = [
        (i, f"x BETWEEN {i} AND {i + 5} AND c = 'c{i % 9}' AND d > DATE '2024-01-{i % 28 + 1:02}'") for i in range(90)
    ]
    space = Space.of(batch, axes=3, bits=4)
    assert space.types == {"x": "number", "c": "string", "d": "date"}
    grid = Grid(space)
    assert told(grid, batch[7][1], {"x": 9, "c": "c7", "d": "2024-03-01"})
    assert not told(grid, batch[7][1], {"x": 80, "c": "c7", "d": "2024-03-01"})
    assert Grid(Space.of([("all", "TRUE")])).ranges(["TRUE", "x = 1"])[1].pairs() == [(0, 0)]


@pytest.mark.parametrize(
    ("space", "problem"),
    [
        (Space((Axis("x", "number", (3, 1)),), 3), "cuts of 'x' that ascend"),
        (Space((Axis("x", "number", (3, 3.0)),), 3), "cuts of 'x' that ascend"),
        (Space((Axis("x", "number", ()), Axis("x", "string", ())), 3), "an attribute has two axes"),
        (Space((Axis("x", "numbers", ()),), 3), "'numbers' is not a type"),
        (Space((Axis("x", "number", ("a",)),), 3), "x"),
        (Space((Axis("x", "number", tuple(range(7))),), 3), "at most 6 cuts of 'x', got 7"),
        (Space(tuple(Axis(f"x{i}", "number", ()) for i in range(20)), 8), "bits in all"),
        ({"axes": [], "bits": 99}, "expected the description of a space"),
        ({"axes": [{"attribute": "x"}]}, "expected the description of a space"),
        (7, "expected the description of a space"),
    ],
)
def test_mistakes_get_a_sentence(space: Any, problem: str) -> None:
    with pytest.raises(EarmarkError, match=problem):
        Grid(space)
    with pytest.raises(EarmarkError, match="the least and the greatest"):
        Space.even({"x": (5, 1)})
