"""The data source read conditions and payload of 10,000 subscriptions at once, whatever their size; and it chose the
version twice, for its columns and for its rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from earmark import EarmarkError
from earmark.book.payload import Payload
from earmark.spark import Snapshot, book_source, search
from earmark.spark.book_source import BookOptions, BookReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIELDS = "id string, condition string, text string"
ROWS, LONG = 40, 10_000


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    for module in (search, book_source):
        monkeypatch.setattr(module, "OUTPUT_BYTES", 5 * LONG)
    return 5 * LONG


def rows(reader: BookReader) -> list[Any]:
    return [batch for piece in reader.partitions() for batch in reader.read(piece)]


def reader(path: Path, **options: Any) -> BookReader:
    given = {"path": str(path), **{name: str(value) for name, value in options.items()}}
    return BookReader(given, BookOptions(given).schema)


def test_payload(spark: SparkSession, tmp_path: Path, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [(f"s{n:02d}", "x > 1", str(n % 10) * LONG) for n in range(ROWS)]
    first = Snapshot.publish(spark.createDataFrame(given, FIELDS).coalesce(2), tmp_path / "b", payload=["text"])
    changed = [(one, condition, text if n % 2 else text[1:] + "!") for n, (one, condition, text) in enumerate(given)]
    changes = spark.createDataFrame(changed, FIELDS).selectExpr("*", "'update' AS op")
    first.apply(changes.coalesce(2)).apply(changes.where("id = 's07'").selectExpr("id", "condition", "'remove' AS op"))
    read, column = [], Payload.column

    def noted(payload: Payload, name: str, sequences: Any) -> Any:
        values = column(payload, name, sequences)
        read.append(values.nbytes)
        return values

    monkeypatch.setattr(Payload, "column", noted)
    found = [row for batch in rows(reader(tmp_path / "b", table="differences", since=1)) for row in batch.to_pylist()]
    assert {row["id"]: row["change"] for row in found} == {
        **{f"s{n:02d}": "changed" for n in range(0, ROWS, 2)},
        "s07": "removed",
    }
    assert {len(row["text"]) for row in found} == {LONG}
    assert max(read) <= small + LONG


def test_conditions(spark: SparkSession, tmp_path: Path, small: int) -> None:
    listed = ", ".join(f"'{n:08d}'" for n in range(LONG // 12))
    given = [(f"s{n:02d}", f"x IN ({listed}, '{n}')") for n in range(ROWS)]
    Snapshot.publish(spark.createDataFrame(given, "id string, condition string").coalesce(2), tmp_path / "b")
    made = rows(reader(tmp_path / "b"))
    assert sum(batch.num_rows for batch in made) == ROWS
    assert max(batch.nbytes for batch in made) <= small + 2 * LONG


def test_a_version_with_other_columns(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, "x > 1", "u")], "id int, condition string, text string").coalesce(1)
    Snapshot.publish(frame, tmp_path / "b", payload=["text"])
    planned = reader(tmp_path / "b")
    fewer = BookReader(planned.options, _only(planned.schema, "id", "condition"))
    other = spark.createDataFrame([(1, "x > 1", 2.5)], "id int, condition string, text double").coalesce(1)
    Snapshot.publish(other, tmp_path / "b", payload=["text"])
    assert [row for batch in rows(fewer) for row in batch.to_pylist()] == [{"id": 1, "condition": "x > 1"}]
    with pytest.raises(EarmarkError, match=r"version 2 of .* has no column 'text' of type string, which this query"):
        planned.partitions()
    pinned = BookReader({**planned.options, "version": "1"}, planned.schema)
    assert [row["text"] for batch in rows(pinned) for row in batch.to_pylist()] == ["u"]


def _only(schema: Any, *names: str) -> Any:
    from pyspark.sql.types import StructType

    return StructType([schema[name] for name in names])
