"""A book whose newest checkpoint was gone said "has no version 2", and not that `earmark repair` makes it again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import earmark
from earmark import Matcher, TableError
from earmark.book import care

HINT = "; `earmark repair` makes it again from the journal"


def without_version(folder: Path) -> None:
    shutil.rmtree(folder / "versions")


def without_record(folder: Path) -> None:
    next(folder.glob("versions/*/version.json")).unlink()


def with_damaged_record(folder: Path) -> None:
    record = next(folder.glob("versions/*/version.json"))
    record.write_text(record.read_text().replace("scan", "nacs"))


def without_segments(folder: Path) -> None:
    shutil.rmtree(folder / "segments")


def with_damaged_segments(folder: Path) -> None:
    for file in (folder / "segments").iterdir():
        file.write_bytes(file.read_bytes()[:-100] + b"x" * 100)


DAMAGES = [without_version, without_record, with_damaged_record, without_segments, with_damaged_segments]


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_error_says_what_to_do(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    folder = tmp_path / "b"
    with earmark.open(folder, index="scan") as m:
        m.add("a", "age > 3")
    damage(folder)
    for readonly in (False, True):
        with pytest.raises(TableError) as caught:
            earmark.open(folder, readonly=readonly)
        assert str(caught.value).endswith(HINT) and str(caught.value).count("earmark repair") == 1
    care.repair(folder)
    assert care.check(folder) == []
    with earmark.open(folder) as m:
        assert m.ids() == ["a"]


def test_another_layout_is_no_damage(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "age > 3")
    record = next((tmp_path / "b").glob("versions/*/version.json"))
    record.write_text(record.read_text().replace('"layout": 1', '"layout": 2'))
    with pytest.raises(TableError, match=r"this earmark reads layout 1$"):
        earmark.open(tmp_path / "b")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_saved_book_has_no_journal(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    m = Matcher("scan")
    m.add("a", "age > 3")
    m.save(tmp_path / "b")
    damage(tmp_path / "b")
    with pytest.raises(TableError) as caught:
        Matcher.load(tmp_path / "b")
    assert "earmark repair" not in str(caught.value)
