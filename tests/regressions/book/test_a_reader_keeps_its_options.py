"""A reader that was opened with another index, or with `mmap=False`, forgot both when it followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark.book import saving


@pytest.mark.parametrize("has_journal", [True, False])
def test_they_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_journal: bool) -> None:
    writer: Any
    if has_journal:
        writer = earmark.open(tmp_path / "b", index="scan")
    else:
        writer = earmark.Matcher("scan")
    writer.add_many([(i, f"age > {i}") for i in range(50)])
    writer.checkpoint() if has_journal else writer.save(tmp_path / "b")
    reader = earmark.open(tmp_path / "b", readonly=True, follow=False, index="blocks", mmap=False)
    kinds = [type(one.index) for one in reader._version.segments]
    writer.remove(3)
    if has_journal:
        writer.add(50, "age > 50")
        writer.add(51, "age > 51")
        writer.retain(before=4)
    else:
        writer.save(tmp_path / "b")
    load, asked = saving.load, []

    def noted(path: Any, number: Any, mmap: bool, index: str | None, **options: Any) -> Any:
        asked.append((mmap, index))
        return load(path, number, mmap, index, **options)

    monkeypatch.setattr(saving, "load", noted)
    reader.refresh()
    assert asked == [(False, "blocks")]
    assert [type(one.index) for one in reader._version.segments] == kinds != [type(None)]
    assert reader.ids() == writer.ids()
    reader.check()
    writer.close()
