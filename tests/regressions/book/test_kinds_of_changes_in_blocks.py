"""Every edit of the command line was a "change" in the history, since it is made in a block that can take a message."""

from __future__ import annotations

from pathlib import Path

import earmark


def test_a_block_with_one_call_has_its_kind(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        with m.change(message="one") as c:
            c.add("a", "TRUE")
        with m.change() as c:
            c.upsert("a", "age > 1")
        with m.change() as c:
            c.add("b", "TRUE")
            c.remove("a")
        with m.change() as c:
            c.remove_many(["b"])
        assert [change.kind for change in m.changes()] == ["add", "upsert", "change", "remove"]
