"""A child that was forked while a book was open kept its lock: after close(), and when its parent was killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import earmark
from earmark.book import folder as folders

FORK = multiprocessing.get_context("fork")


def wait(end: Any) -> None:
    end.wait(60)


def test_closing_lets_others_write(tmp_path: Path) -> None:
    end = FORK.Event()
    m = earmark.open(tmp_path / "b", index="scan")
    child = FORK.Process(target=wait, args=(end,))
    child.start()
    m.add("a", "TRUE")
    m.close()
    with earmark.open(tmp_path / "b") as again:
        assert again.ids() == ["a"]
        again.add("b", "TRUE")
    end.set()
    child.join(60)


def hold_and_fork(folder: Path, said: int) -> None:
    m = earmark.open(folder, index="scan")
    m.add("a", "TRUE")
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    os.write(said, f"{child}\n".encode())
    time.sleep(60)


def test_it_ends_with_the_parent(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    parent = FORK.Process(target=hold_and_fork, args=(tmp_path / "b", writing))
    parent.start()
    os.close(writing)
    with os.fdopen(reading) as pipe:
        child = int(pipe.readline())
    parent.kill()
    os.waitpid(parent.pid or 0, 0)  # join() would wait for the grandchild, too
    try:
        with earmark.open(tmp_path / "b") as again:
            assert again.ids() == ["a"]
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_child_forked_during_a_checkpoint_holds_nobody_up(tmp_path: Path) -> None:
    end = FORK.Event()
    child = FORK.Process(target=wait, args=(end,))
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "TRUE")
        with folders.alone_with(tmp_path / "b"):
            child.start()
        m.checkpoint()
    end.set()
    child.join(60)
