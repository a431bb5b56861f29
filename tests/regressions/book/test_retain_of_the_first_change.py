"""`retain(before=2)` did nothing where the history began with change 1, which kept its author and message."""

from __future__ import annotations

from pathlib import Path

import earmark
from earmark.book import care


def test_it_is_forgotten(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan", author="Gertrude") as m:
        with m.change(message="a secret") as c:
            c.add("a", "age > 5")
        m.add("b", "age > 6")
        for _ in range(2):
            m.retain(before=2)
            assert [(one.kind, one.author, one.message) for one in m.changes()] == [
                ("retain", None, None),
                ("add", "Gertrude", None),
            ]
        m.retain(before=1)
        assert m.as_of(1).ids() == ["a"]
    assert care.check(tmp_path / "b") == []
    assert earmark.open(tmp_path / "b", readonly=True, follow=False).ids() == ["a", "b"]
