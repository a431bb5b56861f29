"""How much of a file has been read, and nothing of it lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from earmark.tabular.read import read_batches
from earmark.tabular.source import source_of


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_shares_follow_the_rows(tmp_path: Path, kind: str) -> None:
    """A bar that stands at 100 % while most is still to be read would tell nothing."""
    count = 250_000
    table = pa.table({"n": list(range(count)), "t": ["x" * 40] * count})
    path = tmp_path / f"e.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind == "csv":
        csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    seen = 0
    for chunk in read_batches(source_of(path)):
        rows: Any = chunk.rows
        assert chunk.first == seen
        seen += len(rows)
        assert chunk.share == pytest.approx(seen / count, abs=0.03)
    assert (seen, chunk.share) == (count, 1.0)
