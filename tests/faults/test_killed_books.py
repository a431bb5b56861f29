"""kill -9 at random moments: every acknowledged change is there, none is there in part, and nothing has to be repaired.

Some writers have a reader beside them, which is killed before them or after. `make test` kills 20 times, `make soak` a
thousand, with other indexes as well.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.faults.killed_book import GROUP, change_until_killed, read_until_killed

import earmark
from earmark.book import care
from earmark.matcher import DEFAULT_INDEX

FORK = multiprocessing.get_context("fork")
State = dict[str, int | None]


def run_and_kill(folder: Path, seed: int, durability: str, rng: random.Random, index: str | None = None) -> list[Any]:
    """Let a process change a book, kill it a moment after it began to, and return what it said."""
    reader = FORK.Process(target=read_until_killed, args=(str(folder),))
    is_read = folder.exists() and rng.random() < 0.3
    if is_read:
        reader.start()
    reading, writing = os.pipe()
    process = FORK.Process(target=change_until_killed, args=(str(folder), seed, durability, writing, index))
    process.start()
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        first = pipe.readline()
        time.sleep(rng.choice([rng.random() * 0.02, rng.random() * 0.3]))
        killed = [process, reader] if is_read else [process]
        for one in rng.sample(killed, len(killed)):
            one.kill()
        said = first + pipe.read()
    for one in killed:
        one.join(60)
        assert one.exitcode == -signal.SIGKILL
    assert first
    return [json.loads(line) for line in said.split(b"\n") if line.endswith(b"]")]


def possible(before: State, said: list[Any]) -> tuple[State, list[State]]:
    """What must be there, and what each thread may have done beyond it."""
    state, begun = dict(before), {0: {}, 1: {}}
    for word, thread, what in said:
        if word == "begin":
            begun[thread] = what
        else:
            state.update(begun[thread])
            begun[thread] = {}
    return state, list(begun.values())


def living(state: State) -> State:
    return {id: score for id, score in state.items() if score is not None}


def check(folder: Path, before: State, said: list[Any]) -> State:
    """Open the book again; returns what is there."""
    sure, extra = possible(before, said)
    m = earmark.open(folder, readonly=True, follow=False)
    found = {str(id): int(m[id].score) for id in m.ids()}
    outcomes = [living({**sure, **a, **b}) for a in ({}, extra[0]) for b in ({}, extra[1])]
    assert found in outcomes
    for thread in (0, 1):
        assert len({found.get(f"{thread}-{one}") for one in GROUP}) == 1
    for change in list(m.changes())[-5:]:
        assert change.differences or change.kind == "declare"
    m.close()
    return found


def kill_often(folder: Path, times: int, seed: int, index: str = "scan") -> None:
    rng, state = random.Random(seed), State()
    for n in range(times):
        said = run_and_kill(folder, seed + n, rng.choice(["full", "normal"]), rng, None if n else index)
        state = check(folder, state, said)
        if rng.random() < 0.1:
            assert care.check(folder) == []
    assert care.check(folder) == []


@pytest.mark.timeout(600)
def test_killed_twenty_times(tmp_path: Path) -> None:
    kill_often(tmp_path / "b", 20, 1)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_killed_a_thousand_times(tmp_path: Path) -> None:
    seed = int(os.environ.get("EARMARK_SEED", time.time_ns() % 10**6))
    print(f"seed {seed}")
    for part in range(20):
        kill_often(tmp_path / str(part), 50, seed + part * 1000, ("scan", DEFAULT_INDEX, "blocks")[part % 3])


def follow_until_killed(folder: Path, begin: Any, pipe: int) -> None:
    begin.wait(60)
    m = earmark.open(folder, readonly=True)
    os.write(pipe, f"{len(m)}\n".encode())
    while True:
        m.refresh()
        m.history("a")
        list(m.changes())


def test_a_killed_reader_holds_nobody_up(tmp_path: Path) -> None:
    readers = []
    for _ in range(3):  # forked before the book is open: SQLite's locks are not inherited
        begin, (reading, writing) = FORK.Event(), os.pipe()
        process = FORK.Process(target=follow_until_killed, args=(tmp_path / "b", begin, writing))
        process.start()
        os.close(writing)
        readers.append((process, begin, reading))
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "TRUE")
        for n, (process, begin, reading) in enumerate(readers):
            begin.set()
            with os.fdopen(reading) as pipe:
                assert int(pipe.readline()) == len(m)
            m.add(f"n{n}", "age > 1")
            process.kill()
            process.join(60)
            m.add(f"m{n}", "age > 1")
            m.checkpoint()
        m.erase("a")  # needs the WAL for itself
    assert care.check(tmp_path / "b") == []


def write_or_say_why_not(folder: Path, id: str, said: Any, end: Any) -> None:
    try:
        m = earmark.open(folder, index="scan")
    except earmark.TableError as problem:
        said.put((id, os.getpid(), str(problem)))
        return
    m.add(id, "TRUE")
    said.put((id, os.getpid(), "wrote"))
    end.wait(60)
    m.close()


def test_of_two_who_want_to_write_one_does(tmp_path: Path) -> None:
    said, end = FORK.Queue(), FORK.Event()
    both = [FORK.Process(target=write_or_say_why_not, args=(tmp_path / "b", id, said, end)) for id in "ab"]
    for process in both:
        process.start()
    words = [said.get(timeout=60) for _ in both]
    end.set()
    for process in both:
        process.join(60)
    (id, writer, _), (_, _, refusal) = sorted(words, key=lambda word: word[2] != "wrote")
    assert f"is open for writing by process {writer} on" in refusal
    assert earmark.open(tmp_path / "b", readonly=True, follow=False).ids() == [id]
