"""A thousand subscriptions with 40 KB of payload overflowed Arrow's strings, and so did long conditions.

Batches were cut by the columns of the events alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from earmark.book import payload
from earmark.book.payload import take_rows
from earmark.spark import Snapshot, match
from earmark.spark import search as searching
from earmark.spark.frames import RESULTS, Columns
from earmark.spark.search import Search, match_batches
from earmark.spark.sentences import sentence_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = " ".join(f"OR age = {n}" for n in range(1_000, 1_200))
FIELDS = "id string, condition string, url string, parts array<string>"


@pytest.mark.spark
def test_batches_with_details(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "BATCH_BYTES", 50_000)
    rows: list[Any] = [(f"s{n:03}", f"age > 1 {LONG}", f"{n % 9}" * 2_000, ["x" * 900, str(n)]) for n in range(200)]
    rows[7] = ("s007", "age > 1", None, None)
    frame = spark.createDataFrame(rows, FIELDS).coalesce(1)
    snapshot = Snapshot.publish(frame, tmp_path / "book", payload=["url", "parts"])
    changed = spark.createDataFrame([("s003", "age > 2", "new", ["y"], "update")], FIELDS + ", op string").coalesce(1)
    snapshot = snapshot.apply(changed)
    monkeypatch.setattr(searching, "OUTPUT_BYTES", 100_000)
    search = Search(str(snapshot.path), 2, snapshot.record["checksum"], None, False, (), None)
    batch = pa.record_batch({"text": ["e" * 100] * 20, "age": pa.array([*range(18), 0, 9], pa.int64())})
    for names in (("url",), ("condition",), ("parts", "tags", "condition", "url")):
        columns = Columns([0], [("age", 1)], None, None, ["text", *RESULTS, *names], details=names, left=True)
        made = list(match_batches(search, columns, iter([batch])))
        assert max(part.nbytes for part in made) < 120_000
        table = pa.Table.from_batches(made)
        assert table.num_rows == 16 * 200 + 199 + 3
        if "url" in names:
            urls = dict(zip(table["subscription"].to_pylist(), table["url"].to_pylist(), strict=True))
            assert urls.pop(None) is None
            wanted = {row[0]: row[2] for row in rows} | {"s003": "new"}
            assert urls == wanted
    monkeypatch.undo()
    events = spark.createDataFrame([(5,)], "age int").coalesce(1)
    local, shuffled = (
        {tuple(map(str, row)) for row in match(events, snapshot, with_columns=["url", "parts"], route=route).collect()}
        for route in ("local", "shuffle")
    )
    assert local == shuffled
    assert len(local) == 200


def test_rows_of_many_batches() -> None:
    table = pa.Table.from_batches([pa.record_batch({"a": [f"{n}"] * 2, "n": [n, n + 10]}) for n in range(5)])
    rows = np.array([9, 0, -1, 4, 0])
    assert take_rows(table, rows)["n"].to_pylist() == [14, 0, None, 2, 0]
    assert take_rows(table, rows[:0]).num_rows == 0
    assert take_rows(table.slice(0, 0), np.array([-1]))["a"].to_pylist() == [None]


@pytest.mark.parametrize("name", ["pyarrow.lib.ArrowInvalid", "KeyboardInterrupt", "my.module.Unhappy"])
def test_the_sentence_of_any_exception(name: str) -> None:
    raised = f'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: first\n\n{"During"} handling:\n\n'
    raised += f'Traceback (most recent call last):\n  File "x.py", line 1\n{name}: too large\nNote: none\n SQLSTATE: 3'
    said = str(sentence_of(RuntimeError(f"An exception was thrown from the Python worker:\n{raised}")))
    assert said == f"Spark failed: {name.rpartition('.')[2]}: too large"
