"""Locks that survive a fork: a child process never waits for a thread that only its parent has.

A fork copies every lock as it is at that moment, but only the thread that forks. A lock that another thread holds then
would stay locked in the child for ever. So each lock of ours is one of two kinds:

    remade_lock, remade_rlock   free in the child. For what readers may see at any moment, such as a published state
    awaited_lock                the fork waits until it is free. For short sections whose data must not be seen half
                                changed; the thread inside must not wait for anything else meanwhile

A matcher's own locks are of the first kind: a child may search at once, whatever the parent's threads were doing. What
another thread was writing at the moment of the fork is not in the child.
"""

from __future__ import annotations

import os
from threading import Lock, RLock
from typing import Any
from weakref import WeakValueDictionary

_remade: WeakValueDictionary[int, Any] = WeakValueDictionary()
_awaited: WeakValueDictionary[int, Any] = WeakValueDictionary()
_taken: list[Any] = []
_LONGEST_WAIT = 5.0  # seconds; only a fork inside such a section itself, in a signal handler, could take so long


def remade_lock() -> Lock:
    """A lock that is free in a forked child."""
    lock = Lock()
    _remade[id(lock)] = lock
    return lock


def remade_rlock() -> RLock:
    """A reentrant lock that is free in a forked child, unless the forking thread itself holds it."""
    lock = RLock()
    _remade[id(lock)] = lock
    return lock


def awaited_lock() -> Lock:
    """A lock that no thread holds while the process forks."""
    lock = Lock()
    _awaited[id(lock)] = lock
    return lock


def _known(locks: WeakValueDictionary[int, Any]) -> list[Any]:
    """Those that are still in use. Other threads may make locks meanwhile, so this is a copy made in one step."""
    return [lock for reference in locks.valuerefs() if (lock := reference()) is not None]


def _before_fork() -> None:
    _taken[:] = [lock for lock in _known(_awaited) if lock.acquire(timeout=_LONGEST_WAIT)]


def _after_fork() -> None:
    for lock in _taken:
        lock.release()
    _taken.clear()


def _after_fork_in_child() -> None:
    _after_fork()
    for lock in (*_known(_remade), *_known(_awaited)):
        if not (hasattr(lock, "_is_owned") and lock._is_owned()):
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
