"""The commit of `retain` failed, and the next failure wrote to the journal that history begins where it does not."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark import EarmarkError
from earmark.book import care


class Connection:
    """A connection whose commits fail while it is on, as where the disk cannot flush."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.is_on = True

    def execute(self, statement: str, *given: Any) -> Any:
        if self.is_on and statement == "COMMIT":
            self.is_on = False
            problem = sqlite3.OperationalError("disk I/O error")
            problem.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise problem
        return self._real.execute(statement, *given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_the_history_begins_where_it_did(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        for i in range(6):
            m.add(f"s{i}", f"age > {i}")
        journal = m._commits_now().journal
        failing = journal._connection = Connection(journal._connection)
        with pytest.raises(EarmarkError, match="cannot be written: disk I/O error"):
            m.retain(before=5)
        failing.is_on = True
        with pytest.raises(EarmarkError, match="cannot be written: disk I/O error"):
            m.add("x", "TRUE")
        m.add("y", "TRUE")
        assert [change.number for change in m.changes()] == list(range(1, 8))
        assert m.as_of(4).ids() == ["s0", "s1", "s2", "s3"]
    assert care.check(tmp_path / "b") == []
