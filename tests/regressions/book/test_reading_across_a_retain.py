"""`retain` puts the whole book into one change, which was replayed on top of what a reader or a backup had already."""

from __future__ import annotations

from pathlib import Path

import pytest

import earmark
from earmark.book import care, copying
from earmark.book.journal import Journal


@pytest.mark.parametrize("before", [6, 7, 8])
def test_a_reader_follows(tmp_path: Path, before: int) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        for i in range(5):
            m.add(i, f"age > {i}")
        reader = earmark.open(tmp_path / "b", readonly=True, follow=False)
        for i in range(5, 8):
            m.add(i, f"age > {i}")
        m.remove(0)
        m.retain(before=before)
        assert reader.refresh() == 9
        assert reader.ids() == m.ids()
        reader.check()
        reader.close()


@pytest.mark.parametrize("before", [6, 7, 9])
def test_a_backup_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        for i in range(5):
            m.add(i, f"age > {i}")
        m.checkpoint()
        copy_version = copying._copy_version

        def overtaken(root: Path, site: Path) -> None:
            copy_version(root, site)
            if m.last_change == 5:
                for i in range(5, 9):
                    m.add(i, f"age > {i}")
                m.retain(before=before)

        with monkeypatch.context() as patch:
            patch.setattr(copying, "_copy_version", overtaken)
            copying.backup(tmp_path / "b", tmp_path / "copy")
        ids = m.ids()
    assert care.check(tmp_path / "copy") == []
    with earmark.open(tmp_path / "copy") as copy:
        assert copy.ids() == ids
        copy.check()


@pytest.mark.parametrize("before", [6, 7, 9])
def test_a_checkpoint_older_than_the_history_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """What a backup without a second attempt was, and what a reader that opens meanwhile sees."""
    with earmark.open(tmp_path / "b", index="scan") as m:
        for i in range(5):
            m.add(i, f"age > {i}")
        m.checkpoint()
        copying.backup(tmp_path / "b", tmp_path / "copy")
        for i in range(5, 9):
            m.add(i, f"age > {i}")
        m.retain(before=before)
        (tmp_path / "copy" / "journal.db").unlink()
        journal = Journal.open(tmp_path / "b", readonly=True)
        journal.copy_to(tmp_path / "copy" / "journal.db")
        journal.close()
        ids = m.ids()
    with earmark.open(tmp_path / "copy") as copy:
        assert copy.ids() == ids
        copy.add(99, "TRUE")
    assert care.check(tmp_path / "copy") == []
    assert earmark.open(tmp_path / "copy", readonly=True, follow=False).ids() == [*ids, 99]
