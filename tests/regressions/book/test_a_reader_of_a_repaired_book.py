"""A reader went on with the journal that `repair` had moved to `damaged`, and never saw another change."""

from __future__ import annotations

from pathlib import Path

import earmark
from earmark.book import care
from earmark.book.journal import FILES, JOURNAL


def test_it_goes_on_with_the_new_journal(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    with earmark.open(folder, index="scan") as m:
        for n in range(30):
            m.add(f"s{n}", f"age > {n}", tags={"why": "x" * 500})
    content = (folder / JOURNAL).read_bytes()
    reader = earmark.open(folder, readonly=True, follow=False)
    assert reader.last_change == 30
    assert len(reader.history("s0")) == 1
    at = content.index(b"age > 29")
    (folder / JOURNAL).write_bytes(content[:at] + b"AGE" + content[at + 3 :])
    done = care.repair(folder)
    assert any("read up to change 29 of 30" in one for one in done), done
    assert [file.name for file in (folder / "damaged").rglob("*") if file.is_file()]
    assert all((folder / "damaged").rglob(name) for name in FILES)
    with earmark.open(folder) as m:
        m.add("after", "TRUE")
        expected = m.ids()
        assert reader.refresh() == m.last_change
        assert reader.ids() == expected
        assert [one.kind for one in reader.history("after")] == ["add"]
    reader.close()
