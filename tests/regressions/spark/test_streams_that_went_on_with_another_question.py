"""An old checkpoint took another book, another k, another scope; a report with a field of a newer earmark could not be
read; a book that may not be written to could not be streamed from; a version that was removed was just not there."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from earmark import EarmarkError
from earmark.book import folder as folders
from earmark.spark import Snapshot, match, read_matches, stream
from earmark.spark.sentences import sentence_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
NOW = {"availableNow": True}


@pytest.fixture(scope="module")
def arriving(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    folder = str(tmp_path_factory.mktemp("other") / "events")
    spark.createDataFrame([(1,), (2,)], "a int").coalesce(1).write.parquet(folder)
    return spark.readStream.schema("a int").parquet(folder)


def book(spark: SparkSession, folder: Path) -> Snapshot:
    return Snapshot.publish(spark.createDataFrame([("s", "a > 1")], "id string, condition string"), folder)


def test_they_are_refused(spark: SparkSession, arriving: DataFrame, tmp_path: Path) -> None:
    snapshot = book(spark, tmp_path / "book")
    places: dict[str, Any] = {"sink": tmp_path / "sink", "checkpoint": tmp_path / "checkpoint", "trigger": NOW}
    assert stream(arriving, snapshot, k=3, **places).await_end(60)
    for options, said in (
        ({"k": 4}, "k=3, not 4"),
        ({"k": 3, "mode": "relaxed"}, "mode='exact', not 'relaxed'"),
        ({"k": 3, "scope": {"t": "x"}}, "scope=None, not {'t': 'x'}"),
        ({"k": 3, "weights": {"a": 0.5}}, "weights=None, not {'a': 0.5}"),
    ):
        with pytest.raises(EarmarkError, match="belongs to a stream with") as caught:
            stream(arriving, snapshot, **options, **places)  # type: ignore[arg-type]
        assert said in str(caught.value)
    with pytest.raises(EarmarkError, match="belongs to a stream with another book"):
        stream(arriving, book(spark, tmp_path / "another"), k=3, **places)
    mark = tmp_path / "sink" / "batch=0" / "_earmark.json"
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "a field of tomorrow": [1]}))
    again = stream(arriving, snapshot.path, k=3, **places)
    assert again.await_end(60)
    assert [report.rows for report in again.reports()] == [2]
    mark.write_text(json.dumps({"batch": 0}))
    with pytest.raises(EarmarkError, match="is not a report of a batch: it has no 'version'"):
        again.reports()


def test_readers_need_no_write_permission(
    spark: SparkSession, arriving: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = book(spark, tmp_path / "book")
    real = os.open

    def refusing(path: Any, flags: int, *more: Any, **named: Any) -> int:
        inside = str(path).startswith(str(tmp_path / "book"))
        if inside and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, flags, *more, **named)

    monkeypatch.setattr(folders.os, "open", refusing)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "book").rglob("*")}
    places: dict[str, Any] = {"sink": tmp_path / "sink", "checkpoint": tmp_path / "checkpoint", "trigger": NOW}
    with pytest.warns(UserWarning, match="may not write to .* is not kept from retain"):
        running = stream(arriving, Snapshot.open(tmp_path / "book"), **places)
    assert running.await_end(60)
    assert read_matches(spark, tmp_path / "sink").count() == 1
    assert match(spark.createDataFrame([(5,)], "a int"), snapshot).count() == 1
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "book").rglob("*")}
    with pytest.raises(EarmarkError, match=r"version 1 of .* cannot be pinned: Permission denied"):
        snapshot.pin("me")


def test_what_retain_removed(spark: SparkSession, tmp_path: Path) -> None:
    first = book(spark, tmp_path / "book")
    planned = match(spark.createDataFrame([(5,)], "a int"), first)
    second = first.compact()
    second.retain(1)
    with pytest.raises(Exception) as caught:
        planned.collect()
    assert "has no version 1 any more: it was removed, by retain or a later save; there are 2" in str(
        sentence_of(caught.value)
    )


def test_killed_workers_end_in_a_sentence(spark: SparkSession) -> None:
    with pytest.raises(Exception) as caught:
        spark.range(1).mapInArrow(lambda _: os._exit(9), "id long").collect()  # type: ignore[arg-type,return-value]
    assert str(sentence_of(caught.value)).startswith("a Python worker was killed in the middle of a task")
