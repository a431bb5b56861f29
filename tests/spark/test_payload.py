"""Columns of the subscriptions that come along with matches: through changes, compaction, shards and both routes."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from earmark.book import payload
from earmark.errors import EarmarkError, SubscriptionError, TableError
from earmark.spark import Snapshot, match

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "id string, condition string, url string, price decimal(9,2), seen timestamp, parts array<int>"
SEEN = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEPT = ["url", "price", "seen", "parts"]


def row(number: int, url: str) -> tuple[Any, ...]:
    return f"s{number}", f"x >= {number}", url, Decimal(number) / 4, SEEN, [number, number + 1]


def urls(events: DataFrame, snapshot: Snapshot, **options: Any) -> dict[str, str]:
    """The url of each subscription that the event 9 matches."""
    found = match(events, snapshot, with_columns=["url"], columns=[], **options)
    return {one["subscription"]: one["url"] for one in found.collect()}


def bad_changes(spark: SparkSession, snapshot: Snapshot) -> None:
    """Changes without the columns of the payload, or with other types, are refused."""
    lacking = spark.createDataFrame([("s1", "x > 1", "upsert")], "id string, condition string, op string")
    with pytest.raises(SubscriptionError, match="no column 'url', which is in the payload"):
        snapshot.apply(lacking)
    other = spark.createDataFrame([("s1", "x > 1", 1, "upsert")], "id string, condition string, url int, op string")
    with pytest.raises(SubscriptionError, match="'url': expected a column of type string, got int"):
        snapshot.apply(other)


@pytest.mark.parametrize("shards", [1, 3])
def test_payload(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int) -> None:
    monkeypatch.setattr(payload, "FILE_ROWS", 3)
    frame = spark.createDataFrame([row(n, f"u{n}") for n in range(8)], SCHEMA).repartition(2)
    snapshot = Snapshot.publish(frame, tmp_path / "book", payload=KEPT, shards=shards)
    assert list(snapshot.payload) == KEPT
    events = spark.createDataFrame([(9,)], "x int").coalesce(1).cache()
    for route in ("local", "shuffle"):
        found = match(events, snapshot, 2, with_columns=["parts", "price", "tags", "seen"], route=route)
        assert found.schema["price"].dataType.simpleString() == "decimal(9,2)"
        best = {one["subscription"]: (one["parts"], one["price"]) for one in found.collect()}
        assert best == {"s0": ([0, 1], Decimal("0.00")), "s1": ([1, 2], Decimal("0.25"))}
    (seen,) = match(events, snapshot, 1, with_columns=["seen"]).selectExpr("unix_seconds(seen)").first() or ()
    assert seen == int(SEEN.timestamp())
    bad_changes(spark, snapshot)

    wanted = {f"s{n}": f"u{n}" for n in range(8)}
    for turn in range(2):  # the second change meets the file of the first
        new = [(*row(2, f"changed {turn}"), "update"), (*row(20 + turn, "out"), "add"), (*row(turn, ""), "remove")]
        new.append((*row(8 - 8 * turn, "again"), "upsert"))
        snapshot = snapshot.apply(spark.createDataFrame(new, SCHEMA + ", op string").coalesce(1))
        wanted["s2"] = f"changed {turn}"
        del wanted[f"s{turn}"]
        wanted[f"s{8 - 8 * turn}"] = "again"
        assert urls(events, snapshot) == wanted
    assert sum(entry["changes"] for entry in payload.files_of(snapshot.record)) == 1
    snapshot = snapshot.compact()
    assert urls(events, snapshot) == wanted == urls(events, snapshot, k=20)
    rows = sum(entry["rows"] for entry in payload.files_of(snapshot.record))
    assert rows == len(snapshot)  # what was replaced or removed is gone

    snapshot.retain(1)
    listed = {entry["file"] for entry in (*snapshot.record["segments"], *payload.files_of(snapshot.record))}
    listed |= {snapshot.record["router"]["file"]} if snapshot.record["router"] else set()
    assert {file.name for file in (tmp_path / "book" / "segments").iterdir()} == listed
    with pytest.raises(EarmarkError, match="with_columns: expected each of 'condition', 'tags', 'url'"):
        match(events, snapshot, with_columns=["nothing"])


def test_wrong_payload(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([row(1, "u")], SCHEMA).coalesce(1)
    for wrong in (["nothing"], ["condition"], ["url", "url"], "url"):
        with pytest.raises(EarmarkError, match="payload"):
            Snapshot.publish(frame, tmp_path / "book", payload=wrong)
    empty = Snapshot.publish(frame.where("false"), tmp_path / "empty", payload=["url"])
    events = spark.createDataFrame([(9,)], "x int").coalesce(1)
    found = match(events, empty, with_columns=["url"], how="left", missing="null", metrics="empty")
    assert [one["url"] for one in found.collect()] == [None]


def test_damaged_payload(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([row(1, "somewhere")], SCHEMA).coalesce(1)
    snapshot = Snapshot.publish(frame, tmp_path / "book", payload=["url"])
    (entry,) = payload.files_of(snapshot.record)
    file = tmp_path / "book" / "segments" / entry["file"]
    content = file.read_bytes()
    file.write_bytes(content.replace(b"somewhere", b"elsewhere"))
    with pytest.raises(TableError, match="damaged: the checksum of"):
        Snapshot.open(tmp_path / "book")
