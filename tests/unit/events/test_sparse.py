"""Frames of many columns, mostly NULL, are read as column by column."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.events import frames, sparse
from earmark.keys.schema import Schema

KINDS = ("number", "integer", "float")


def schema(kinds: list[str]) -> Schema:
    made = Schema()
    made.declare({f"a{i}": kind for i, kind in enumerate(kinds)})
    return made


def table(rng: Random, columns: int, rows: int, kind: pa.DataType) -> pa.Table:
    whole = [0, 1, -1, 2**53 + 1, -(2**63), 2**63 - 1]
    pool: list[Any] = whole if kind == pa.int64() else [0.0, -0.0, 1.5, -math.inf, math.nan, 5e-324]
    cells = [[rng.choice(pool) if rng.random() < 0.1 else None for _ in range(rows)] for _ in range(columns)]
    names = rng.sample(range(columns), columns)
    return pa.table({f"a{name}": pa.array(cell, kind) for name, cell in zip(names, cells, strict=True)})


@given(seed=st.integers(0, 2**32), kind=st.sampled_from([pa.int64(), pa.float64()]))
def test_the_same_events(seed: int, kind: pa.DataType) -> None:
    rng = Random(seed)
    columns, rows = rng.randint(32, 40), rng.randint(1, 70)
    made = schema([rng.choice(KINDS if kind == pa.int64() else ("number", "float")) for _ in range(columns)])
    events = table(rng, columns, rows, kind)
    found = frames.encode_frame(made, events)
    by_column = frames.encode_frame(made, events, weights=[{}] * rows)._replace(weight=found.weight)
    assert [part.tolist() for part in found] == [part.tolist() for part in by_column]


def test_what_is_not_read_together() -> None:
    rng = Random(1)
    made = schema(["number"] * 40)
    events = table(rng, 40, 50, pa.int64())

    def is_sparse(events: pa.Table, schema: Schema = made) -> bool:
        return sparse.is_sparse(schema, frames._columns(schema, events), events.num_rows)

    assert is_sparse(events)
    assert not is_sparse(events.slice(3))  # its bitmaps begin inside a byte
    assert not is_sparse(events.select(events.column_names[:31]))
    assert not is_sparse(events.set_column(7, events.column_names[7], pa.array([1.5] * 50)))
    assert not is_sparse(pa.table({name: pa.array([1] * 50) for name in events.column_names}))
    assert not is_sparse(events.slice(0, 0))
    assert not is_sparse(table(rng, 40, 50, pa.float64()), schema(["integer"] * 40))


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 64])
def test_lengths_around_a_byte(rows: int) -> None:
    made = schema(["integer"] * 32)
    events = pa.table({f"a{i}": pa.array([i if (i + r) % 8 == 0 else None for r in range(rows)]) for i in range(32)})
    found = frames.encode_frame(made, events)
    assert found.start.tolist() == [4 * r for r in range(rows + 1)]
    assert found.lo.tolist() == found.attr.tolist()
