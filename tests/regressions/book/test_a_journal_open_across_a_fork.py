"""A child that was forked while a book was open wrote to a WAL that its parent removed: the locks are not inherited."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

import earmark

FORK = multiprocessing.get_context("fork")


def attempt(folder: Path, said: Any) -> None:
    try:
        earmark.open(folder, index="scan").add("lost", "TRUE")
        said.put("added")
    except earmark.TableError as problem:
        said.put(str(problem))


@pytest.mark.parametrize("closed", [False, True])
def test_the_child_does_not_open_it(tmp_path: Path, closed: bool) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "TRUE")
    reader = earmark.open(tmp_path / "b", readonly=True, follow=False)
    if closed:
        reader.close()
    said = FORK.Queue()
    process = FORK.Process(target=attempt, args=(tmp_path / "b", said))
    process.start()
    word = said.get(timeout=60)
    process.join(60)
    assert word == "added" if closed else "was open in the process that this one was forked from" in word
    ids = earmark.open(tmp_path / "b", readonly=True, follow=False).ids()
    assert ids == (["a", "lost"] if closed else ["a"])
