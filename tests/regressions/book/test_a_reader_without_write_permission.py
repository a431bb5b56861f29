"""A reader that may not write to the folder took its journal for a file that nobody changes, and never saw a change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import earmark


@pytest.fixture
def may_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = os.access

    def denied(path: Any, mode: int, **options: Any) -> bool:
        return not mode & os.W_OK and access(path, mode, **options)

    monkeypatch.setattr(os, "access", denied)


@pytest.mark.usefixtures("may_not_write")
def test_it_follows(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "age > 3")
    reader = earmark.open(tmp_path / "b", readonly=True, follow=False)
    assert reader.history("a") and reader.refresh() == 1
    for number in (2, 3):
        with earmark.open(tmp_path / "b") as m:
            m.add(f"n{number}", "TRUE")
            assert reader.refresh() == number and len(reader) == number
        reader.close() if number == 3 else reader.refresh()
    assert [one.number for one in earmark.open(tmp_path / "b", readonly=True, follow=False).changes()] == [1, 2, 3]


@pytest.mark.usefixtures("may_not_write")
def test_what_changed_while_it_looked_back_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from earmark.book import opening

    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "age > 3")
    reader = earmark.open(tmp_path / "b", readonly=True, follow=False)
    real, looks = opening.as_of, []

    def beside_a_writer(*given: Any) -> Any:
        found = real(*given)
        looks.append(given)
        if len(looks) == 1:
            with earmark.open(tmp_path / "b") as m:
                m.add("b", "TRUE")
        return found

    monkeypatch.setattr(opening, "as_of", beside_a_writer)
    assert reader.as_of(1).ids() == ["a"]
    assert len(looks) == 2
