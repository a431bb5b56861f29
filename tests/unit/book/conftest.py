"""A saved book, whole and to spoil."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.unit.book.saved_books import filled


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "t"
    filled().save(folder)
    return folder


@pytest.fixture
def saved(pristine: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(pristine, tmp_path / "t"))
