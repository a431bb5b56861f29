"""After the machine was started again, readers took the last writer for one elsewhere, and served old checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import earmark


def test_the_journal_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "TRUE")
        m.checkpoint()
        m.add("b", "TRUE")
        shutil.copytree(tmp_path / "b", tmp_path / "left")  # as after a loss of power
    read_text = Path.read_text

    def restarted(self: Path, *args: object, **options: object) -> str:
        return "another boot" if self.name == "boot_id" else read_text(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "read_text", restarted)
    with earmark.open(tmp_path / "left", readonly=True, follow=False) as reader:
        assert reader.ids() == ["a", "b"]
    with earmark.open(tmp_path / "left") as writer:  # the lock file of the previous boot holds nobody up
        assert writer.ids() == ["a", "b"]
