"""What failed while a book was being opened kept its lock, so that it could not be opened until the process ended."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark.book import care


@pytest.mark.filterwarnings("ignore:a checkpoint of")
@pytest.mark.parametrize("call", ["open", "ftruncate", "pwrite", "fsync", "rename", "replace", "mkdir"])
@pytest.mark.parametrize("is_new", [True, False])
def test_it_can_be_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, is_new: bool) -> None:
    real, state = getattr(os, call), {"at": 0, "count": 0}

    def failing(*given: Any, **named: Any) -> Any:
        state["count"] += 1
        if state["count"] == state["at"]:
            raise OSError(28, "No space left on device")
        return real(*given, **named)

    def attempt(at: int) -> int:
        folder = tmp_path / str(at)
        if not is_new:
            with earmark.open(folder, index="scan") as m:
                m.add("a", "age > 3")
        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing)
            state.update(at=at, count=0)
            opened = None
            with suppress(earmark.EarmarkError):  # another exception is a failure
                opened = earmark.open(folder, index="scan")
            count = state["count"]
        if opened is not None:
            opened.close()
        with earmark.open(folder, index="scan") as m:
            m.upsert("a", "age > 4")
            assert m.ids() == ["a"]
        assert care.check(folder) == []
        return count

    for at in range(1, attempt(0) + 1):
        attempt(at)
