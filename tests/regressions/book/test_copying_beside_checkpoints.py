"""A backup, and the figures of `stats`, failed where a checkpoint replaced what they were looking at."""

from __future__ import annotations

from pathlib import Path

import pytest

import earmark
from earmark.book import care, copying, folder


def test_a_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "age > 3")
        m.checkpoint()
        real, calls = folder.read_record, []

        def overtaken(root: Path, number: int, checksum: str | None = None) -> object:
            calls.append(number)
            if len(calls) == 1:
                for i in range(3):
                    m.upsert("a", f"age > {i}")
                    m.checkpoint()
            return real(root, number, checksum)

        with monkeypatch.context() as patch:
            patch.setattr(folder, "read_record", overtaken)
            copying.backup(tmp_path / "b", tmp_path / "copy")
    assert care.check(tmp_path / "copy") == []
    with earmark.open(tmp_path / "copy") as copy:
        assert copy["a"].condition == "age > 2"


def test_disk_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "age > 3")
        m.checkpoint()
        is_file = Path.is_file

        def removed(self: Path) -> bool:
            found = is_file(self)
            if self.parent.name == "segments":
                self.unlink()
            return found

        with monkeypatch.context() as patch:
            patch.setattr(Path, "is_file", removed)
            assert m.stats()["disk"]["journal"] > 0
