"""A repair could not use checkpoints where book.json was damaged as well, and lost sight of a journal it was moving."""

from __future__ import annotations

from pathlib import Path

import pytest

import earmark
from earmark.book import care


@pytest.mark.parametrize("content", [None, b"{", b"", b'{"format": "earmark-book"}'])
def test_a_checkpoint_is_enough(tmp_path: Path, content: bytes | None) -> None:
    folder = tmp_path / "b"
    with earmark.open(folder, index="blocks") as m:
        m.add_many([(f"s{i}", f"age > {i} AND city = 'c{i}'") for i in range(50)])
        m.remove("s3")
    (folder / "journal.db").write_bytes(b"nothing")
    if content is None:
        (folder / "book.json").unlink()
    else:
        (folder / "book.json").write_bytes(content)
    assert any("a new one begins with the newest checkpoint" in one for one in care.repair(folder))
    assert care.check(folder) == []
    with earmark.open(folder) as again:
        assert again.ids() == [f"s{i}" for i in range(50) if i != 3]
        assert again.match({"age": 50, "city": "c7"}) == ["s7"]


@pytest.mark.parametrize("moves", range(6))
def test_a_repair_that_was_killed_while_it_moved_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    folder = tmp_path / "b"
    with earmark.open(folder, index="scan") as m:
        for i in range(20):
            m.add(f"s{i}", f"age > {i}")
        for file in folder.glob("journal.db*"):
            (tmp_path / file.name).write_bytes(file.read_bytes())
    for file in tmp_path.glob("journal.db*"):  # with the WAL that a killed process leaves
        (folder / file.name).write_bytes(file.read_bytes())
    for name in ("versions", "segments", "CURRENT"):  # nothing but the journal has the subscriptions
        (folder / name).rename(tmp_path / name)
    left, rename = [moves], Path.rename

    def killed(self: Path, target: Path) -> Path:
        if "journal.db" in self.name or "moving-" in self.name:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
        return rename(self, target)

    monkeypatch.setattr(care, "_walked", lambda journal: (15, "it is damaged", []))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        try:
            care.repair(folder)
        except KeyboardInterrupt:
            assert not left[0]
    monkeypatch.undo()
    care.repair(folder)
    assert care.check(folder) == []
    with earmark.open(folder) as again:
        assert len(again) >= 15
