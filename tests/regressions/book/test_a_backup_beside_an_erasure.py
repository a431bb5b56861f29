"""A backup copied the newest checkpoint, then something was erased, and then it copied the journal.

It had the text of what was erased, in a checkpoint that the changes of its journal could not follow.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import earmark
from earmark.book import care, copying


def test_it_has_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("gone", "city = 'Gertrude'")
        m.add("kept", "city = 'Oslo'")
        m.checkpoint()
        copy = copying._copy_version

        def overtaken(root: Path, site: Path) -> None:
            copy(root, site)
            if "gone" in m:
                m.erase("gone")

        monkeypatch.setattr(copying, "_copy_version", overtaken)
        copying.backup(m.path, tmp_path / "copy")
    files = [file for file in (tmp_path / "copy").rglob("*") if file.is_file()]
    assert not [file for file in files if b"Gertrude" in file.read_bytes()]
    assert care.check(tmp_path / "copy") == []
    assert earmark.open(tmp_path / "copy", readonly=True, follow=False).ids() == ["kept"]
