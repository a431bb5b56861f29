"""A file of payload had a million rows, however large; and leaving out what is gone copied all files before any was
written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from earmark.book import payload
from earmark.book.payload import SEQUENCE, read_payload, settled, write_payload
from earmark.book.publishing import publishing

TABLES, ROWS, LONG = 12, 100, 1_000


def table(number: int) -> pa.Table:
    sequence = np.arange(ROWS) + number * ROWS
    return pa.table({SEQUENCE: sequence, "text": [f"{n:04d}" * (LONG // 4) for n in sequence.tolist()]})


def test_files_are_cut_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "FILE_BYTES", 2 * ROWS * LONG)
    with publishing(tmp_path / "book") as site:
        files = list(write_payload(site, map(table, range(TABLES))))
        assert [entry["rows"] for entry in files] == [2 * ROWS] * (TABLES // 2)
        folder = site.folder / "segments"
        for file in list(folder.iterdir()):
            (tmp_path / "book" / "segments").mkdir(exist_ok=True)
            file.rename(tmp_path / "book" / "segments" / file.name)

        held, write = [], payload._write

        def noted(*arguments: object) -> payload.Entry:
            held.append(pa.total_allocated_bytes() - before)
            return write(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(payload, "_write", noted)
        before = pa.total_allocated_bytes()
        live = np.arange(TABLES * ROWS)
        live = live[(live % (2 * ROWS) != 5) | (live < 2 * ROWS)]  # a row of every file but the first is gone
        left = settled(site, files, live)
        assert left[-1] == files[0]  # nothing of it is gone, so it stays
        assert max(held) < 6 * ROWS * LONG
        found = [place for entry in left[:-1] for place in read_payload(site.folder, entry)[SEQUENCE].to_pylist()]
        assert sorted(found) == live[live >= 2 * ROWS].tolist()
