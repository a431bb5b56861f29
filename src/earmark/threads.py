"""Work on several threads: one pool for the whole process, and a caller that works along.

    in_parallel(work, items, threads)      items     0 1 2 3 4 5     whoever is free takes the next item:
                                           done by   a b a c b a     the caller, a, and its helpers

The helpers are lent by the pool. A caller waits only for helpers that have begun, so callers never wait for each other,
however many there are: when all of the pool is busy, the caller does its work alone.

What gains is work that gives up Python's lock, as kernels do. Work in the background and in Spark's workers, which are
as many as there are cores already, is done `alone`. The threads of the pool end with the interpreter. A fork copies
none of them, so a child starts a pool of its own.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from numbers import Integral
from threading import Condition, local
from typing import Any, TypeVar

from earmark.errors import EarmarkError, shown
from earmark.locks import remade_lock

T = TypeVar("T")
R = TypeVar("R")

RUNS = 2
"""Parts of the work per thread, so that all end at about the same time."""

_starting = remade_lock()
_pool: ThreadPoolExecutor | None = None
_here = local()


@contextmanager
def at_most(threads: Any) -> Iterator[None]:
    """Let what this thread does meanwhile use this many threads, itself included, unless it is asked for more.

    None: no fewer than it may use anyway.
    """
    before = getattr(_here, "most", None)
    if threads is not None:
        _here.most = thread_count(threads)
    try:
        yield
    finally:
        _here.most = before


def cores() -> int:
    """How many threads the work of this thread may use: as many as the process has cores, or as it was limited to."""
    return getattr(_here, "most", None) or _process_cores()


def _process_cores() -> int:
    if hasattr(os, "process_cpu_count"):  # from Python 3.13 on
        return os.process_cpu_count() or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count(threads: Any) -> int:
    """The number of threads that a user asks for; None: all cores."""
    if threads is None:
        return cores()
    if isinstance(threads, bool) or not isinstance(threads, Integral) or threads < 1:
        raise EarmarkError(f"expected a whole number of at least 1 as threads, got {shown(threads)}")
    return int(threads)


def runs_of(count: int, runs: int) -> list[tuple[int, int]]:
    """Where this many runs of about the same length, at least one, begin and end in a row of `count`."""
    runs = max(1, min(runs, count))
    return list(pairwise(count * run // runs for run in range(runs + 1)))


def in_parallel(work: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Call `work` with each item on up to `threads` threads, one of which is the caller's; the results in order.

    After an exception no further item is begun, and it is raised here when all threads have ended what they had begun.
    """
    threads = min(threads, len(items))
    if threads < 2:
        return [work(item) for item in items]
    results: list[Any] = [None] * len(items)
    waiting = deque(enumerate(items))
    turn = Condition()
    helping = 0
    is_over = False
    failures: list[BaseException] = []

    def take_turns() -> None:
        try:
            while waiting:
                try:
                    number, item = waiting.popleft()
                except IndexError:  # another thread was quicker
                    return
                results[number] = work(item)
        except BaseException:
            waiting.clear()
            raise

    def help_out() -> None:
        nonlocal helping
        with turn:
            if is_over:  # it begins late, and nobody waits for it any more
                return
            helping += 1
        try:
            take_turns()
        except BaseException as failure:
            failures.append(failure)
        finally:
            with turn:
                helping -= 1
                turn.notify()

    try:
        with suppress(RuntimeError):  # no more threads: at the end of the interpreter, or of what the system allows
            for _ in range(threads - 1):
                _started().submit(help_out)
        take_turns()
    finally:
        waiting.clear()
        with turn:
            is_over = True
            while helping:
                turn.wait()
    if failures:
        raise failures[0]
    return results


def _started() -> ThreadPoolExecutor:
    """The pool, which is started when it is first needed."""
    global _pool
    with _starting:
        if _pool is None:
            _pool = ThreadPoolExecutor(_process_cores(), "earmark", setattr, (_here, "most", 1))
        return _pool


def _forget() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
