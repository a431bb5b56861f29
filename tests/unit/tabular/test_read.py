"""How much of a file has been read, and nothing of it lost."""

from __future__ import annotations

import csv as python_csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

from earmark.tabular import csvfile
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


FIELDS = st.text(st.sampled_from('ab",;\n\r é'), max_size=6)


@given(st.lists(st.tuples(FIELDS, FIELDS), max_size=12), st.integers(32, 80), st.sampled_from(",;\t"))
def test_csv_in_blocks_of_any_size(rows: list[tuple[str, str]], block: int, delimiter: str) -> None:
    """Every field as Python's writer wrote it, every row with its line."""
    text = io.StringIO()
    writer = python_csv.writer(text, delimiter=delimiter, quoting=python_csv.QUOTE_ALL, lineterminator="\n")
    lines = []
    for row in [("x", "y"), *rows]:
        lines.append(text.getvalue().replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1)
        writer.writerow(row)
    with tempfile.NamedTemporaryFile(suffix=".csv") as file, pytest.MonkeyPatch.context() as patch:
        file.write(text.getvalue().encode())
        file.flush()
        patch.setattr(csvfile, "BLOCK", block)
        chunks = list(read_batches(source_of(file.name, delimiter=delimiter)))
    found: list[Any] = [row for chunk in chunks for row in chunk.rows.to_pylist()]  # type: ignore[union-attr]
    assert [(row["x"], row["y"]) for row in found] == rows
    assert [line for chunk in chunks for line in chunk.lines] == lines[1:]
