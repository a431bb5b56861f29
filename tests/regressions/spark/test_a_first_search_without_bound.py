"""The first search of a partition had 2,048 events, whatever they matched: 41M answers where each matches 20,000."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from earmark import Matcher
from earmark.book.folder import newest
from earmark.engine.searcher import Searcher
from earmark.errors import TooManyAnswers
from earmark.spark import search as searching
from earmark.spark.frames import RESULTS, Columns
from earmark.spark.search import FIRST_STEP, LAST_STEP, Pace, Search, match_batches

SUBSCRIPTIONS, EVENTS, WANTED = 300, 5_000, 15_000


def test_the_first_search_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Matcher()
    matcher.add_many([{"id": i, "condition": f"a > {i % 7}"} for i in range(SUBSCRIPTIONS)])
    matcher.save(tmp_path / "book")
    record = newest(tmp_path / "book", None, dict)
    search = Search(str(tmp_path / "book"), 1, record["checksum"], None, False, (), None)
    columns = Columns([0], [("a", 1)], None, None, ["row", *RESULTS])
    batch = pa.record_batch({"row": np.arange(EVENTS), "a": np.where(np.arange(EVENTS) < 2_500, 9, 0)})
    monkeypatch.setattr(searching, "WANTED_ANSWERS", WANTED)
    sizes, answers = [], Searcher.answers

    def noted(*arguments: Any) -> Any:
        found = answers(*arguments)
        sizes.append((len(found.starts) - 1, len(found.scores)))
        return found

    monkeypatch.setattr(Searcher, "answers", noted)
    found = pa.Table.from_batches(match_batches(search, columns, iter([batch])))
    assert found.num_rows == 2_500 * SUBSCRIPTIONS
    assert sizes[0][0] == FIRST_STEP
    assert max(answers for _, answers in sizes) <= FIRST_STEP * SUBSCRIPTIONS
    assert sum(events for events, _ in sizes) == EVENTS


def test_few_searches_where_little_is_found() -> None:
    batch = pa.record_batch({"row": np.arange(200_000)})
    assert [part.num_rows for part, _ in Pace(None).over(batch, lambda part: (None, 0))] == [
        *(FIRST_STEP, FIRST_STEP * 32, LAST_STEP, LAST_STEP, LAST_STEP, 200_000 - FIRST_STEP * 33 - 3 * LAST_STEP)
    ]  # fmt: skip
    first = next(part.num_rows for part, _ in Pace(10).over(batch, lambda part: (None, part.num_rows * 10)))
    assert first == LAST_STEP


def test_few_searches_that_fail() -> None:
    """Where a search has few answers and many candidates, it was tried again with as many events as had failed."""
    failed: list[int] = []

    def search(part: pa.RecordBatch) -> tuple[None, int]:
        if part.num_rows > 1_000:
            failed.append(part.num_rows)
            raise TooManyAnswers("there are more")
        return None, 0

    made = [part.num_rows for part, _ in Pace(10).over(pa.record_batch({"row": np.arange(50_000)}), search)]
    assert sum(made) == 50_000
    assert len(made) < 100
    assert len(failed) < 40
