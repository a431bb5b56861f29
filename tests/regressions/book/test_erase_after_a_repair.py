"""`erase` left the text in the folder `damaged`, where a repair had put the old journal."""

from __future__ import annotations

from pathlib import Path

import earmark
from earmark.book import care
from earmark.book.journal import JOURNAL


def test_nothing_stays_in_damaged(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    with earmark.open(folder, index="scan") as m:
        m.add("gone", "city = 'Gertrude'", tags={"who": "tag-Value-77"})
        m.add("other", "age > 123456")
    content = (folder / JOURNAL).read_bytes()
    at = content.index(b"age > 123456")
    (folder / JOURNAL).write_bytes(content[:at] + b"AGE" + content[at + 3 :])
    care.repair(folder)
    with earmark.open(folder) as m:
        assert any(b"Gertrude" in file.read_bytes() for file in (folder / "damaged").rglob("*") if file.is_file())
        m.erase("gone")
        left = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert b"Gertrude" not in left
    assert b"tag-Value-77" not in left
    assert care.check(folder) == []
