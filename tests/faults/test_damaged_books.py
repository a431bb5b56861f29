"""Every file of a book damaged in turn: a sentence, or the right answer; never a wrong one. `repair` makes it whole."""

from __future__ import annotations

import os
import random
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark import EarmarkError
from earmark.book import care

EVENTS = [{"age": 5, "city": "Oslo"}, {"age": 50, "city": "c7"}, {"age": 0}]
Answers = tuple[Any, ...]


def answers(m: earmark.Book) -> Answers:
    found = [m.match(event) for event in EVENTS]
    subscriptions = [m[id] for id in m.ids()]
    histories = [[one[4:] for one in m.history(id)] for id in ("a", "s7", "gone")]
    return found, subscriptions, histories, [change.number for change in m.changes()]


CHECKPOINT = 1031
"""Subscriptions that the newest checkpoint has."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answers]:
    """A book with two checkpoints, changes after them, and a WAL that was not folded: as a killed process leaves it."""
    folder = tmp_path_factory.mktemp("damaged") / "b"
    m = earmark.open(folder, index="blocks")
    m.add("a", "age > 3 AND city = 'Oslo'", tags={"tenant": "acme"})
    m.add_many([(f"s{i}", f"age > {i} AND city = 'c{i}'") for i in range(1030)])
    m.checkpoint()
    m.add("gone", "age = 3")
    m.remove("gone")
    m.checkpoint()
    for i in range(20):
        m.add(f"late{i}", f"age < {i}")
    m.update("s7", score=3.0)
    expected = answers(m)
    assert len(m) == CHECKPOINT + 20
    target = tmp_path_factory.mktemp("copy") / "b"
    shutil.copytree(folder, target)
    m.close()
    return target, expected


def opened(folder: Path, readonly: bool = False) -> Answers | str:
    """What a book answers, or the sentence that refuses it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            m = earmark.open(folder, readonly=True, follow=False) if readonly else earmark.open(folder)
            try:
                return answers(m)
            finally:
                m.close()
    except EarmarkError as problem:
        return str(problem)


def flipped(content: bytes, at: int) -> bytes:
    made = bytearray(content)
    made[at // 8] ^= 1 << at % 8
    return bytes(made)


def spoiled(content: bytes, flips: int, rng: random.Random) -> list[tuple[str, bytes | None]]:
    size = len(content)
    found: list[tuple[str, bytes | None]] = [("gone", None), ("empty", b""), ("zeros", bytes(size))]
    found += [("half", content[: size // 2]), ("less", content[:-1])]
    middle = size // 3
    found.append(("hole", content[:middle] + bytes(min(4096, size - middle)) + content[middle + 4096 :]))
    places = [rng.randrange(8 * size) for _ in range(flips)] if size else []
    return found + [(f"bit {at}", flipped(content, at)) for at in places]


def cases(folder: Path, flips: int) -> list[tuple[str, str, bytes | None]]:
    rng = random.Random(7)
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.endswith("-shm")]
    return [
        (str(file.relative_to(folder)), how, content)
        for file in files
        for how, content in spoiled(file.read_bytes(), flips, rng)
        if content != file.read_bytes()
    ]


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("flips", [1, pytest.param(60, marks=pytest.mark.slow)])
def test_every_file_damaged_in_turn(whole: tuple[Path, Answers], tmp_path: Path, flips: int) -> None:
    pristine, expected = whole
    refused = silent = 0
    for number, (name, how, content) in enumerate(cases(pristine, flips)):
        folder = tmp_path / str(number)
        shutil.copytree(pristine, folder)
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content)
        for file in folder.glob("*-shm"):
            file.unlink()
        found = opened(folder, readonly=number % 2 == 0)
        if isinstance(found, str):
            refused += 1
            assert "\n" not in found
        else:
            silent += 1
            assert found == expected, (name, how)
        if flips > 1 or number % 7 == 0 or (name == "journal.db" and how in ("half", "hole", "less")):
            problems = care.check(folder)
            assert problems or isinstance(found, tuple), (name, how)
            repaired(folder, name, how, expected)
        shutil.rmtree(folder)
    assert refused > 20 and silent > 3


@pytest.mark.parametrize("share", [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95])
@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_cut_journal_with_its_wal_beside_it(tmp_path: Path, share: float, has_checkpoint: bool) -> None:
    """What `kill -9` leaves, and then the database is cut: SQLite itself says that it is malformed."""
    with earmark.open(tmp_path / "a", index="scan") as m:
        for i in range(300):
            m.add(f"s{i}", f"x > {i}")
        m.checkpoint()
        m.add("late", "x < 0")
        m.update("s7", "x < 7")
        shutil.copytree(tmp_path / "a", tmp_path / "b")
    folder, ids = tmp_path / "b", [f"s{i}" for i in range(300)]
    os.truncate(folder / "journal.db", int((folder / "journal.db").stat().st_size * share))
    if not has_checkpoint:
        shutil.rmtree(folder / "versions")
        (folder / "CURRENT").unlink()
    if not has_checkpoint and share < 0.1:  # not even its facts can be read
        with pytest.raises(EarmarkError, match="neither its journal nor a version"):
            care.repair(folder)
        return
    done = care.repair(folder)
    assert any("of 302" in one or " is whole: 302 changes" in one for one in done), done
    assert care.check(folder) == []
    with earmark.open(folder) as again:
        found = again.ids()
        assert found == [*ids, "late"][: len(found)] and (len(found) >= 300 or not has_checkpoint)
        again.add("new", "TRUE")


def repaired(folder: Path, name: str, how: str, expected: Answers) -> None:
    """After a repair the book is whole, and has what the journal had, or what a checkpoint did."""
    done = care.repair(folder)
    assert done
    assert care.check(folder) == [], (name, how)
    found = opened(folder)
    assert not isinstance(found, str), (name, how, found)
    if "journal" not in name:
        assert found[:2] == expected[:2], (name, how)
    else:
        ids = [one.id for one in found[1]]
        assert ids == [one.id for one in expected[1]][: len(ids)], (name, how)
        assert len(ids) >= CHECKPOINT, (name, how)


def test_a_lost_wal_is_noticed(whole: tuple[Path, Answers], tmp_path: Path) -> None:
    shutil.copytree(whole[0], tmp_path / "b")
    for file in (tmp_path / "b").glob("journal.db-*"):
        file.unlink()
    assert "though change 25 was made: it is damaged" in str(opened(tmp_path / "b"))
