"""A book that nobody held any more kept its lock until the process ended, so it could not be opened again."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import earmark


def test_it_can_be_opened_again(tmp_path: Path) -> None:
    held = [earmark.open(tmp_path / "b", index="scan")]
    held[0].add("a", "TRUE")
    held.clear()
    with pytest.warns(ResourceWarning, match=r"was dropped without close\(\)"):
        gc.collect()
    with earmark.open(tmp_path / "b") as again:
        assert again.ids() == ["a"]


def test_a_closed_one_is_dropped_in_silence(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    m = earmark.open(tmp_path / "b", index="scan")
    m.add("a", "TRUE")
    m.close()
    del m
    gc.collect()
    assert [one for one in recwarn if issubclass(one.category, ResourceWarning) and "dropped" in str(one.message)] == []
