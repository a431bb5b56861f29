"""The flush of a checkpoint raised the system's own exceptions, as did old files that could not be removed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark import EarmarkError


@pytest.mark.parametrize("call", ["checkpoint", "retain", "backup", "erase", "close"])
def test_a_failing_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    m = earmark.open(tmp_path / "b", index="scan")
    m.add("a", "age > 3")
    m.add("b", "age > 3")
    given: dict[str, tuple[Any, ...]] = {"retain": (2,), "backup": (tmp_path / "copy",), "erase": ("a",)}

    def failing(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(EarmarkError, match="No space left on device"):
            getattr(m, call)(*given.get(call, ()))
    m.close()
    with earmark.open(tmp_path / "b") as again:
        assert again.ids() == (["b"] if call == "erase" else ["a", "b"])
