"""Readers of checkpoints were told that nothing was published, where the writer only has to make one."""

from __future__ import annotations

from pathlib import Path

import pytest

import earmark
from earmark.book import folder
from earmark.errors import TableError


def test_the_error_says_what_makes_one(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "ads") as m:
        m.add("a", "x > 1")
        with pytest.raises(TableError, match=r"has no CURRENT: m\.checkpoint\(\) makes its first"):
            folder.current_version(tmp_path / "ads")
        m.checkpoint()
        assert folder.current_version(tmp_path / "ads") == 1
