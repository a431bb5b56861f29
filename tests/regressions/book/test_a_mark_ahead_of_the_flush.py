"""Opened with durability="full", a book said that changes made with "normal" were flushed, and nobody had done so.

After a loss of power, that is a damaged journal, which has to be repaired, instead of one that lost its last changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark.book.journal import Journal
from earmark.book.marks import Mark


def test_the_flush_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    m = earmark.open(tmp_path / "b", index="scan", durability="normal")
    m.add("a", "TRUE")
    assert m._lock is not None
    m._lock.release()  # as a kill does
    done: list[Any] = []
    flush, write = Journal.flush, Mark.write
    monkeypatch.setattr(Journal, "flush", lambda self: (done.append("flush"), flush(self)))
    monkeypatch.setattr(
        Mark, "write", lambda self, number, flushed: (done.append(flushed), write(self, number, flushed))
    )
    earmark.open(tmp_path / "b", durability="full").close()
    assert done[:2] == ["flush", True]
