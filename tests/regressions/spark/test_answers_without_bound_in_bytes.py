"""2,048 events with a kilobyte each and 1,100 matches were one Arrow array of more than 2 GiB."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from earmark import Matcher
from earmark.book.folder import newest
from earmark.spark import search as searching
from earmark.spark.frames import RESULTS, Columns
from earmark.spark.search import OUTPUT_BYTES, Search, cuts, match_batches, row_bytes


def test_batches_are_cut_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Matcher()
    matcher.add_many([{"id": i, "condition": f"a > {i % 7}"} for i in range(200)])
    matcher.save(tmp_path / "book")
    record = newest(tmp_path / "book", None, dict)
    search = Search(str(tmp_path / "book"), 1, record["checksum"], None, False, (), None)
    long = ["x" * 2_000, "y" * 10, "z" * 30_000]
    batch = pa.record_batch({"text": [*long, None] * 20, "a": pa.array([9, 9, 9, 0] * 20, pa.int64())})
    columns = Columns([0], [("a", 1)], None, None, ["text", *RESULTS])
    monkeypatch.setattr(searching, "OUTPUT_BYTES", 100_000)
    made = list(match_batches(search, columns, iter([batch])))
    assert sum(part.num_rows for part in made) == 60 * 200
    assert all(sum(len(text) for text in part.column("text").to_pylist()) <= 100_000 for part in made)
    found = pa.Table.from_batches(made)["text"].value_counts().to_pylist()
    assert {entry["values"]: entry["counts"] for entry in found} == dict.fromkeys(long, 20 * 200)


def test_sizes_of_rows() -> None:
    batch = pa.record_batch(
        {
            "s": pa.array(["abc", None, ""]),
            "i": pa.array([1, 2, None], pa.int32()),
            "m": pa.array([[("k", "four")], None, []], pa.map_(pa.string(), pa.string())),
            "l": pa.array([[b"12", b"3"], [b"456"], None], pa.list_(pa.binary())),
            "n": pa.nulls(3),
            "st": pa.array(
                [{"a": "xy", "b": 1.5}, None, {"a": "", "b": None}], pa.struct({"a": "string", "b": "double"})
            ),
        }
    )
    assert row_bytes(batch, [0]).tolist() == [3, 0, 0]
    assert row_bytes(batch, [2]).tolist() == [5, 0, 0]
    assert row_bytes(batch, [3]).tolist() == [3, 3, 0]
    assert row_bytes(batch.slice(1), [2, 3]).tolist() == [3, 0]
    assert row_bytes(batch, list(range(6)))[0] >= 3 + 4 + 5 + 3 + 2 + 8
    parts = list(cuts(np.array([OUTPUT_BYTES * 2, 1]), np.array([0, 0, 1, 1])))
    assert parts == [(0, 1), (1, 2), (2, 4)]
