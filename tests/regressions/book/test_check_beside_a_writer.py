"""`check` called a version missing that the writer had removed between two looks."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark.book import care, folder, saving
from earmark.book.journal import Journal


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (folder, "version_numbers"),
        (folder, "current_version"),
        (folder, "read_record"),
        (saving, "verify"),
        (saving, "load"),
        (saving, "verify_answers"),
        (Journal, "last"),
        (Journal, "sums"),
    ],
)
def test_versions_that_are_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    """At some step of the check, the writer removes what it is about to read."""
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "x > 0")
        m.checkpoint()
        m.update("a", "x > 1")
        m.checkpoint()

        def overtaken(real: Any) -> Any:
            def call(*given: Any, **more: Any) -> Any:
                monkeypatch.undo()
                for _ in range(2):
                    m.update("a", f"x > {m.last_change}")
                    m.checkpoint()
                return real(*given, **more)

            return call

        monkeypatch.setattr(module, name, overtaken(getattr(module, name)))
        assert care.check(tmp_path / "b") == []
        assert m.last_change == 4


def test_beside_a_thread_that_writes(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan", durability="normal") as m:
        m.add("a", "x > 0")
        m.checkpoint()
        is_over = threading.Event()

        def write() -> None:
            while not is_over.is_set():
                m.update("a", f"x > {m.last_change}")
                m.checkpoint()
                time.sleep(0.005)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(5):
                assert care.check(tmp_path / "b") == []
        finally:
            is_over.set()
            writer.join()


@pytest.mark.parametrize("what", ["version", "record", "segment"])
def test_what_is_missing_without_a_writer_is_damage(tmp_path: Path, what: str) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "x > 0")
        m.checkpoint()
        m.add("b", "x > 0")
    root = tmp_path / "b"
    current = folder.version_folder(root, folder.current_version(root))
    if what == "version":
        shutil.rmtree(current)
    elif what == "record":
        (current / "version.json").unlink()
    else:
        for file in (root / "segments").iterdir():
            file.unlink()
    assert care.check(root)
