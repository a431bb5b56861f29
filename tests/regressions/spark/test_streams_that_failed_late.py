"""Streams started, claimed sink and checkpoint, and failed in the first batch; or ran, and nobody heard of them."""

from __future__ import annotations

import errno
import gc
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from earmark import EarmarkError
from earmark.spark import MatchListener, Snapshot, read_matches, stream, streaming

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from earmark.spark.listener import Figures

pytestmark = pytest.mark.spark

NOW = {"availableNow": True}


@pytest.fixture(scope="module")
def book(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    rows = [("a", "x > 1"), ("b", "x > 2")]
    frame = spark.createDataFrame(rows, "id string, condition string").coalesce(1)
    return Snapshot.publish(frame, tmp_path_factory.mktemp("late") / "book", shards=2)


@pytest.fixture
def arriving(spark: SparkSession, tmp_path: Path) -> DataFrame:
    spark.range(4).selectExpr("id AS x").coalesce(1).write.parquet(str(tmp_path / "in"))
    return spark.readStream.schema("x bigint").parquet(str(tmp_path / "in"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"route": "shuffle", "how": "left"}, "how='left' needs the route 'local'"),
        ({"event_time": "nope"}, "event_time: the events have no column 'nope'; their columns are x, reason"),
        ({"event_time": "x"}, "event_time: expected a column of timestamps, got 'x' of type bigint"),
        ({"on_error": "reject"}, "the column 'reason' is also a column of rejected events"),
        ({"columns": ["Batch"]}, "the column 'Batch' is also a column of what read_matches returns"),
        ({"with_columns": "tags"}, "expected a list of strings for with_columns, got 'tags'"),
        ({"combine": "median"}, "combine: expected one of"),
        ({"trigger": {"processingTime": "now and then"}}, "trigger: expected .* got {'processingTime': 'now and then'"),
        ({"trigger": {"processingTime": 5}}, "trigger: expected"),
        ({"trigger": {"availableNow": False}}, "trigger: expected"),
        ({"trigger": {"continuous": "1 second"}}, "trigger: expected"),
        ({"trigger": {"availableNow": True, "once": True}}, "trigger: expected"),
        ({"trigger": "5 seconds"}, "trigger: expected"),
    ],
)
def test_noticed_at_the_call(
    arriving: DataFrame, book: Snapshot, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    events = arriving.selectExpr("x", "'because' AS reason", "1 AS Batch")
    with pytest.raises(EarmarkError, match=said):
        stream(
            events.drop("Batch") if "columns" not in options else events,
            book,
            tmp_path / "s",
            tmp_path / "c",
            **options,
        )
    assert [one.name for one in tmp_path.iterdir()] == ["in"]


def test_another_question(spark: SparkSession, arriving: DataFrame, book: Snapshot, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"combine": "max", "at": "2026-01-01", "with_columns": ["tags"], "trigger": NOW}
    stream(arriving, book, tmp_path / "s", tmp_path / "c", **asked).await_end(120)
    assert read_matches(spark, tmp_path / "s").count() == 3
    for other in ({"combine": "min"}, {"at": "2027-01-01"}):
        with pytest.raises(EarmarkError, match="belongs to a stream with"):
            stream(arriving, book, tmp_path / "s", tmp_path / "c", **(asked | other))
    stream(arriving, book, tmp_path / "s", tmp_path / "c", **asked).await_end(120)


def test_a_book_that_is_read_only(
    spark: SparkSession, arriving: DataFrame, book: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def refused(path: Path, missing_ok: bool = False) -> None:
        if path.parent.name == "pins":
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    with monkeypatch.context() as patched:
        patched.setattr(streaming, "is_writable", lambda root: False)
        with pytest.warns(UserWarning, match="may not write to"):
            running = stream(arriving, book, tmp_path / "s", tmp_path / "c", trigger=NOW)
        running.await_end(120)
    assert read_matches(spark, tmp_path / "s").count() == 3
    book.pin("someone")
    with pytest.raises(EarmarkError, match=r"version 1 of .* cannot be unpinned: Read-only file system"):
        book.unpin("someone")
    monkeypatch.setattr("earmark.book.folder.alone_with", lambda root: refused(root / "pins" / "x"))
    with pytest.raises(EarmarkError, match=r"versions of .* cannot be removed: Read-only file system"):
        book.retain(1)


def test_a_stream_that_nobody_holds(spark: SparkSession, arriving: DataFrame, book: Snapshot, tmp_path: Path) -> None:
    figures: list[Figures] = []
    listener = MatchListener(figures.append)
    spark.streams.addListener(listener)
    try:
        query = stream(arriving, book, tmp_path / "s", tmp_path / "c", name="unheld", trigger=NOW).query
        gc.collect()
        query.awaitTermination(120)
        until = time.monotonic() + 30
        while not figures and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(listener)
    assert [(one.query, one.matches) for one in figures if one.events] == [("unheld", 3)]
