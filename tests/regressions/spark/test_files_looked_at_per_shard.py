"""Opening a version looked at the file of every shard four times; on a shared mount each look takes a round trip."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.books import book_frame

from earmark.book.saving import open_for_search
from earmark.engine.batch import read
from earmark.engine.searcher import Searcher
from earmark.spark import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_twice_at_most(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": i, "condition": f"a BETWEEN {i} AND {i + 3}"} for i in range(40)]
    snapshot = Snapshot.publish(book_frame(spark, rows, 1), tmp_path / "book", shards=4)
    looked: Counter[str] = Counter()
    for name in ("open", "stat", "lstat"):
        real = getattr(os, name)

        def counted(path: Any, *more: Any, real: Any = real, **named: Any) -> Any:
            if not isinstance(path, int):
                looked[Path(os.fspath(path)).name] += 1
            return real(path, *more, **named)

        monkeypatch.setattr(os, name, counted)
    version = open_for_search(snapshot.path, snapshot.version)
    answers = Searcher(version).answers(read(version, [{"a": i} for i in range(45)]))
    assert len(answers.scores) == 160
    files = [entry["file"] for entry in snapshot.record["segments"]]
    assert len(files) == 4
    assert [looked[file] for file in files] == [2] * 4
