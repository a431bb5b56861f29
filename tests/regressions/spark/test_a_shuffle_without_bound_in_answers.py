"""With `route="shuffle"` a worker searched up to 65,536 events at once, and failed where they had too many answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from earmark import Matcher
from earmark.book.folder import newest
from earmark.engine import searcher
from earmark.index import answers
from earmark.spark.frames import RESULTS, Columns
from earmark.spark.search import Search
from earmark.spark.shuffle import search_batches

SUBSCRIPTIONS, EVENTS, MOST = 200, 500, 5_000


@pytest.mark.parametrize("k", [None, 20])
def test_half_the_events_where_answers_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, k: int | None
) -> None:
    matcher = Matcher()
    matcher.add_many([{"id": i, "condition": f"a > {i % 7}", "score": i / 8} for i in range(SUBSCRIPTIONS)])
    matcher.save(tmp_path / "book")
    record = newest(tmp_path / "book", None, dict)
    search = Search(str(tmp_path / "book"), 1, record["checksum"], k, False, (), None)
    columns = Columns([0], [("a", 1)], None, None, ["row", *RESULTS])
    numbers = pa.array(np.arange(EVENTS))
    given = {"row": numbers, "a": pa.array([9] * EVENTS, pa.int64())}
    batch = pa.record_batch({**given, "event": numbers, "place": pa.array([0] * EVENTS, pa.int32())})
    for module in (answers, searcher):
        monkeypatch.setattr(module, "MOST_ANSWERS", MOST)
    sizes, found = [], searcher.Searcher.found

    def noted(*arguments: Any) -> Any:
        answer = found(*arguments)
        sizes.append(len(answer.slots))
        return answer

    monkeypatch.setattr(searcher.Searcher, "found", noted)
    table = pa.Table.from_batches(search_batches(search, columns, np.array([0, 1]), iter([batch])))
    wanted = sorted(range(SUBSCRIPTIONS), reverse=True)[:k]
    by_event: dict[int, list[int]] = {}
    for row, subscription in zip(table["c0"].to_pylist(), table["c1"].to_pylist(), strict=True):
        by_event.setdefault(row, []).append(subscription)
    assert {row: sorted(own, reverse=True) for row, own in by_event.items()} == dict.fromkeys(range(EVENTS), wanted)
    assert max(sizes) <= MOST
