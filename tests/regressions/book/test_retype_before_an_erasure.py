"""Once the only user of a retyped attribute was erased, repeating the journal failed: "there is no attribute"."""

from __future__ import annotations

from pathlib import Path

import earmark
from earmark.book import care


def test_the_journal_is_repeated(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("kept", "city = 'c'")
        m.add("gone", "age > 5")
        m.retype("age", "integer")
        m.erase("gone")
        m.add("more", "city = 'd'")
        assert m.as_of(5).ids() == [*m.as_of(3).ids(), "more"] == ["kept", "more"]
        assert str(m.as_of(5).attributes["age"]) == str(m.attributes["age"])
    assert care.check(tmp_path / "b") == []


def test_names_that_were_declared_stay_and_learned_ones_go(tmp_path: Path) -> None:
    """As docs/books.md says: `retype` is an act of its own."""
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("s", "zzdeclared > 3 AND zzlearned > 3")
        m.retype("zzdeclared", "integer")
        m.erase("s")
        assert list(m.attributes) == ["zzdeclared"]
    content = b"".join(file.read_bytes() for file in (tmp_path / "b").rglob("*") if file.is_file())
    assert b"zzlearned" not in content and b"zzdeclared" in content
