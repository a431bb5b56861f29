"""The undo of a change that `retain` has forgotten said "there is no change 0", and a reader said it only after it had
looked for the change. No refusal said what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import earmark
from earmark import Book, EarmarkError

READONLY = "was opened read-only, so it takes no changes; open it without readonly=True to change it"
CHANGES: list[Callable[[Book], object]] = [
    lambda m: m.add("b", "age > 4"),
    lambda m: m.add_many([("b", "age > 4")]),
    lambda m: m.update("s5", score=2.0),
    lambda m: m.update("s5", score=2.0, if_change=6),
    lambda m: m.upsert("s5", "age > 4"),
    lambda m: m.remove("s5"),
    lambda m: m.remove_many(["s5"]),
    lambda m: m.declare({"city": "string"}),
    lambda m: m.retype("age", "integer"),
    lambda m: m.undo(6),
    lambda m: m.undo(1),
    lambda m: m.undo(99),
    lambda m: m.retain(2),
    lambda m: m.erase("s5"),
    lambda m: m.erase("nobody"),
    lambda m: m.change(),
    lambda m: m.compact(),
    lambda m: m.adapt([{"age": 3}]),
    lambda m: m.checkpoint(),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with earmark.open(tmp_path / "b", index="scan") as m:
        for i in range(6):
            m.add(f"s{i}", f"age > {i}")
    return tmp_path / "b"


def test_what_was_forgotten(folder: Path) -> None:
    with earmark.open(folder) as m:
        m.retain(4)
        first = next(iter(m.changes())).number
        for number in range(1, first + 1):
            said = f"change {number} cannot be undone: it was forgotten by `retain`; changes after {first} can be"
            with pytest.raises(EarmarkError, match=said):
                m.undo(number)
        m.undo(first + 1)
        m.erase("s5")
        with pytest.raises(EarmarkError, match="cannot be undone: it erased a subscription, of which nothing is left"):
            m.undo(m.last_change)
        with pytest.raises(EarmarkError, match="there is no change 99; the last one is"):
            m.undo(99)


def test_when_all_was_forgotten(folder: Path) -> None:
    with earmark.open(folder) as m:
        m.retain(2)
        with pytest.raises(EarmarkError, match="change 1 cannot be undone: it was forgotten by `retain`"):
            m.undo(1)


@pytest.mark.parametrize("change", CHANGES)
def test_by_a_reader(folder: Path, change: Callable[[Book], object]) -> None:
    with earmark.open(folder, readonly=True, follow=False) as m:
        with pytest.raises(EarmarkError, match=READONLY):
            change(m)
        assert m.last_change == 6 and len(m) == 6


def test_undo_of_what_was_erased_since(tmp_path: Path) -> None:
    """It added a change to the history that changed nothing."""
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "age > 3")
        m.add_many([("b", "age > 4"), ("c", "age > 5")])
        m.erase("a")
        m.erase("b")
        with pytest.raises(EarmarkError, match="change 1 cannot be undone: all that it changed was erased since"):
            m.undo(1)
        m.undo(2)
        assert (m.ids(), m.last_change) == ([], 5)
