"""Edits of `change()` were made again from the caller's own lists and mappings when the block ended, and so with what
the caller had put into them meanwhile: rows were lost, and tags, weights and params were those of the last call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import earmark
from earmark import SubscriptionError
from earmark.segment.builder import Subscription


def test_reused_rows(tmp_path: Path) -> None:
    rows: list[Any] = []
    with earmark.open(tmp_path / "book", index="scan") as m:
        with m.change() as c:
            for start in (0, 10):
                rows += [(f"r{start + i}", "a > 1") for i in range(3)]
                assert c.add_many(rows) == 3
                rows.clear()
        assert list(m) == ["r0", "r1", "r2", "r10", "r11", "r12"]


@pytest.mark.parametrize("method", ["add", "upsert", "update"])
def test_reused_mappings(method: str, tmp_path: Path) -> None:
    tags, weights, params = {"t": "1"}, {"a": 2.0}, {"least": 1}
    with earmark.open(tmp_path / "book", index="scan") as m:
        if method == "update":
            m.add_many([("first", "a > 7"), ("second", "a > 8")])
        with m.change() as c:
            getattr(c, method)("first", "a > :least", tags=tags, weights=weights, params=params)
            tags["t"], weights["a"], params["least"] = "2", 3.0, 5
            getattr(c, method)("second", "a > :least", tags=tags, weights=weights, params=params)
            tags["t"], weights["a"], params["least"] = "3", 4.0, 9
        for id, condition, tag, weight in (("first", "a > 1", "1", 2.0), ("second", "a > 5", "2", 3.0)):
            kept = m[id]
            assert (kept.condition, kept.tags, kept.weights) == (condition, {"t": tag}, {"a": weight})


def test_reused_parts_of_rows(tmp_path: Path) -> None:
    tags, params = {"t": "1"}, [1]
    row = {"id": "mapping", "condition": "a > ?", "tags": tags, "params": params}
    pair = ["pair", "a > 3"]
    with earmark.open(tmp_path / "book", index="scan") as m:
        with m.change() as c:
            c.add_many((row, pair, Subscription("object", "a > ?", tags=tags, params=params)))
            tags["t"], params[0], row["id"], pair[1] = "2", 5, "other", "a > 9"
        assert [(m[id].condition, m[id].tags) for id in m] == [
            ("a > 1", {"t": "1"}),
            ("a > 3", None),
            ("a > 1", {"t": "1"}),
        ]


def test_a_frame_that_changes(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": [1, 2], "a_lo": [1.0, 2.0], "a_hi": [5.0, 6.0]})
    with earmark.open(tmp_path / "book", index="scan") as m:
        with m.change() as c:
            c.add_many(frame)
            for name in ("id", "a_lo", "a_hi"):
                frame.loc[:, name] += 100
        assert m.match({"a": 1}) == [1]
        assert list(m) == [1, 2]


def test_types_that_change(tmp_path: Path) -> None:
    types = {"a": "integer"}
    with earmark.open(tmp_path / "book", index="scan") as m:
        with m.change() as c:
            c.declare(types)
            types["a"] = "string"
        assert m.attributes["a"].type == "integer"


def test_what_is_not_given_stays(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "book", index="scan") as m:
        m.add("x", "a > 1", tags={"t": "1"}, weights={"a": 2.0})
        with m.change() as c:
            c.update("x", score=3.0)
            with pytest.raises(SubscriptionError, match="params need a condition"):
                c.update("x", params=[1])
        assert (m["x"].tags, m["x"].weights, m["x"].score) == ({"t": "1"}, {"a": 2.0}, 3.0)
