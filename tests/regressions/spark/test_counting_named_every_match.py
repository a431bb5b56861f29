"""`count_matches` and `shard_counts` made the ids of all matches, to throw them away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from earmark import Matcher
from earmark.book.folder import newest
from earmark.segment.ids import Ids
from earmark.spark.frames import Columns
from earmark.spark.search import Search, counted, searched


@pytest.mark.parametrize("k", [None, 3])
def test_no_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, k: int | None) -> None:
    matcher = Matcher()
    matcher.add_many([{"id": f"s{i}", "condition": f"a > {i}"} for i in range(50)])
    matcher.add("late", "a > 4")  # a segment of its own
    matcher.remove("s2")
    matcher.save(tmp_path / "book")
    record = newest(tmp_path / "book", None, dict)
    search = Search(str(tmp_path / "book"), 1, record["checksum"], k, False, (), None, "null")
    columns = Columns([], [("a", 0)], None, None, [])
    values = [*range(0, 60, 3), None, 5.0, "x"]
    batch = pa.record_batch({"a": pa.array([None if one == "x" else one for one in values], pa.float64())})
    parts = list(searched(search, columns, iter([batch])))
    wanted = sum(len(part.answers.scores) for part in parts), sum(part.answers.counts for part in parts)

    def named(*_: Any) -> Any:
        raise AssertionError("nobody asked for names")

    monkeypatch.setattr(Ids, "taken", named)
    found = counted(search, columns, iter([batch]))
    assert (found.events, found.rejected, found.matches) == (len(values), 0, wanted[0])
    assert np.array_equal(found.tables, wanted[1])
