"""Ready-made bounds in a part: the rows at fault are those that would be refused one by one."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.feather import read_table

from earmark.engine.updates import added
from earmark.engine.version import Version
from earmark.errors import EarmarkError
from earmark.keys.schema import Schema, schema_of, schema_record
from earmark.segment.forms import reader_of
from earmark.spark import intake as parts

MOMENTS = pa.timestamp("ns")


def plan(folder: Path = Path(), attributes: dict[str, str] | None = None) -> parts.RowPlan:
    schema = Schema()
    schema.declare(attributes or {})
    return parts.RowPlan(None, True, False, str(folder), schema_record(schema))


def one_by_one(given: parts.RowPlan, frame: pa.Table) -> dict[int, EarmarkError]:
    """The rows that are refused when each comes by itself, after the good ones before it."""
    version = Version.empty(schema_of(given.record))
    wrong: dict[int, EarmarkError] = {}
    for row in range(frame.num_rows):
        try:
            version = added(version, reader_of(frame.slice(row, 1), given.bounds, progress=False)(version.schema))
        except EarmarkError as problem:
            wrong[row] = problem
    return wrong


def bounds(rng: random.Random, rows: int) -> dict[str, Any]:
    kinds = {
        "number": lambda: rng.randrange(9),
        "text": lambda: rng.choice("abc"),
        "time": lambda: rng.choice([1000, 2000, 2001]),
    }
    types = {"number": pa.int64(), "text": pa.string(), "time": MOMENTS}
    columns: dict[str, Any] = {}
    for name in "nm":
        for end in ("lo", "hi"):
            kind = rng.choice(["number", "number", "text", "time"])
            values = [kinds[kind]() if rng.random() < 0.5 else None for _ in range(rows)]
            columns[f"{name}_{end}"] = pa.array(values, types[kind])
    return columns


def ranges(rng: random.Random, rows: int) -> dict[str, Any]:
    lo, hi = (rng.choice([pa.int64(), pa.int64(), pa.string()]) for _ in "lh")
    value = {pa.int64(): lambda: rng.randrange(9), pa.string(): lambda: rng.choice("abc")}

    def entry() -> dict[str, Any]:
        return {
            "attribute": rng.choice(["n", "m", "k", "k", "", None] if rng.random() < 0.2 else "nmk"),
            "lo": value[lo]() if rng.random() < 0.4 else None,
            "hi": value[hi]() if rng.random() < 0.4 else None,
            "weight": rng.choice([1.0, 1.0, 1.0, 1.0, None, -1.0] if rng.random() < 0.2 else [1.0]),
        }

    given = [None if rng.random() < 0.05 else [entry() for _ in range(rng.randrange(3))] for _ in range(rows)]
    fields = {"attribute": pa.string(), "lo": lo, "hi": hi, "weight": pa.float64()}
    return {"ranges": pa.array(given, pa.list_(pa.struct(fields)))}


def frame(rng: random.Random) -> pa.Table:
    rows = rng.randrange(1, 25)
    columns = rng.choice([bounds, ranges])(rng, rows)
    ids = [
        rng.choice(["", str(rng.randrange(40))] if rng.random() < 0.1 else [str(rng.randrange(60))])
        for _ in range(rows)
    ]
    columns = {"id": pa.array(ids), **columns}
    if rng.random() < 0.5:
        columns["score"] = pa.array(
            [rng.choice([0.0, 1.0, float("inf")] if rng.random() < 0.2 else [0.0]) for _ in ids]
        )
    if rng.random() < 0.3:
        tags = [[("t", None if rng.random() < 0.1 else "x")] for _ in ids]
        columns["tags"] = pa.array(tags, pa.map_(pa.string(), pa.string()))
    return pa.table(columns)


@pytest.mark.parametrize("seed", range(150))
def test_the_rows_at_fault_are_those_refused_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    given, attributes = frame(rng), rng.choice([None, None, {"n": "integer"}, {"n": "string"}, {"n": "timestamp"}])
    _, taken, rejects, _ = parts._ready_made(plan(attributes=attributes), given)
    wrong = one_by_one(plan(attributes=attributes), given)
    assert taken == [row for row in range(given.num_rows) if row not in wrong]
    assert [one["id"] for one in rejects] == [given["id"][row].as_py() for row in sorted(wrong)]
    assert all(one["reason"] and not one["reason"].startswith(("row", "subscription")) for one in rejects)


def test_reasons_are_those_of_the_rows() -> None:
    entry = {"attribute": "n", "lo": 1, "hi": 2, "weight": 1.0}
    rows = [[entry], [{**entry, "weight": -3.0}], None, [entry], [{**entry, "attribute": ""}], [entry]]
    _, taken, rejects, _ = parts._ready_made(plan(), pa.table({"id": ["a", "b", "c", "a", "e", "f"], "ranges": rows}))
    assert taken == [0, 5]
    assert {one["id"]: one["reason"] for one in rejects} == {
        "b": "the weight of 'n' must be finite and not negative, got -3.0",
        "c": "'ranges' is NULL",
        "a": "the id is given twice",
        "e": "expected an attribute's name of 1 to 1000 characters, got ''",
    }


def test_a_column_at_fault_is_one_of_all_rows() -> None:
    given = pa.table({"id": [1, 2], "n_lo": [1, 2], "n_hi": [3, 4], "score": ["x", "y"]})
    _, taken, rejects, _ = parts._ready_made(plan(), given)
    assert taken == []
    assert [one["reason"] for one in rejects] == ["expected numbers in the column 'score', got the type string"] * 2


def test_at_most_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[int] = []

    def counted(given: pa.Table, *rest: Any, **options: Any) -> Any:
        passes.append(given.num_rows)
        return reader_of(given, *rest, **options)

    monkeypatch.setattr(parts, "reader_of", counted)
    scores = [float("nan") if row % 7 == 0 else 0.0 for row in range(1_000)]
    ids = [row // 2 for row in range(1_000)]
    _, taken, rejects, _ = parts._ready_made(plan(), pa.table({"id": ids, "n_lo": ids, "n_hi": ids, "score": scores}))
    assert len(passes) == 2 and passes[1] == len(taken)
    assert len(taken) + len(rejects) == passes[0] == 1_000
    parts._ready_made(plan(), pa.table({"id": [1], "n_lo": [1], "n_hi": [2]}))
    assert len(passes) == 3


def test_conditions_that_cannot_be_taken(tmp_path: Path) -> None:
    """The reason says what is wrong with the condition; the id has a column of its own."""
    given = plan(tmp_path)._replace(ready=False)
    name = parts.build_part(given, pa.table({"id": ["a", "b", "c"], "condition": ["n > 1", "n >", "n = 'x'"]}))
    rejects = read_table(tmp_path / name / "rejects.arrow").to_pylist()
    assert [(one["id"], one["reason"]) for one in rejects] == [
        ("b", "condition 'n >': expected a value after '>', got the end of the condition"),
        ("c", "n = 'x': expected a number for 'n' (first used so by subscription 'a': n > 1), got 'x'"),
    ]
    assert json.loads(json.dumps(given.record)) == given.record
