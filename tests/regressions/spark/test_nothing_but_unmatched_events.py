"""how="left" with tags or conditions failed where some thousand rows in a row, or all of them, had no match."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from earmark import Matcher
from earmark.book.folder import newest
from earmark.spark import Snapshot, match
from earmark.spark import search as searching
from earmark.spark.frames import RESULTS, Columns
from earmark.spark.search import Search, match_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("names", [("tags",), ("condition",), ("condition", "tags")])
def test_rows_are_cut_where_none_has_a_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    matcher = Matcher()
    matcher.add("s", "a > 5", tags={"tenant": "acme"})
    matcher.save(tmp_path / "book")
    record = newest(tmp_path / "book", None, dict)
    search = Search(str(tmp_path / "book"), 1, record["checksum"], None, False, (), None)
    columns = Columns([0], [("a", 0)], None, None, ["a", *RESULTS, *names], details=names, left=True)
    monkeypatch.setattr(searching, "BLOCK", 4)
    found = pa.Table.from_batches(match_batches(search, columns, iter([pa.record_batch({"a": list(range(7))})])))
    assert found["a"].to_pylist() == list(range(7))
    assert found[names[0]].to_pylist() == [None] * 6 + [{"tags": [("tenant", "acme")], "condition": "a > 5"}[names[0]]]


@pytest.mark.spark
def test_with_payload(spark: SparkSession, tmp_path: Path) -> None:
    book = spark.createDataFrame([("s", "a > 5", "url")], "id string, condition string, url string")
    snapshot = Snapshot.publish(book, tmp_path / "book", payload=["url"])
    events = spark.createDataFrame([(1,), (2,)], "a int")
    found = match(events, snapshot, how="left", with_columns=["url", "tags", "condition"]).collect()
    assert sorted(map(tuple, found)) == [(event, None, None, 1, None, None, None) for event in (1, 2)]
