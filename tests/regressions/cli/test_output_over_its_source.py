"""`audit -o` and `match --engine spark -o` wrote over the file that they were reading."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", "ads.parquet", "-o", "ads.parquet"],
        ["match", "ads.parquet", "events.parquet", "--engine", "spark", "-o", "ads.parquet"],
        ["top-k", "ads.parquet", "events.parquet", "--engine", "spark", "-o", "events.parquet"],
    ],
)
def test_it_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    pq.write_table(pa.table({"id": ["one"], "condition": ["a > 1"]}), tmp_path / "ads.parquet")
    pq.write_table(pa.table({"a": [5]}), tmp_path / "events.parquet")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    command = [sys.executable, "-m", "earmark", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"'{arguments[-1]}' cannot be written: it is read from" in done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
