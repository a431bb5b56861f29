"""Refusals: what a broker refused of the requests of a client, until those who should know have been told.

Several threads or tasks may share a client. A refusal is for whoever asked or published; but that one may never look,
or have ended. So a call that reports (`flush`, `wait_in_force`) tells its thread or task

    what was refused of its own, even if another was told of it before        nobody takes it from you
    what was refused of others, and nobody has been told of                   nothing goes unnoticed

and nobody is told of the same refusal twice.

**Complexity**: O(r) per call that reports, for at most MOST_REFUSALS refusals; beyond that the oldest are dropped.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from earmark.errors import shortened
from earmark.overlay import messages as m

MOST_REFUSALS = 1_000
Caller: TypeAlias = "threading.Thread | asyncio.Task[Any]"

THREAD: ContextVar[threading.Thread | None] = ContextVar("earmark client thread", default=None)
"""The thread that waits for the present task: a client without asyncio has a task of its own for each call."""


def caller() -> weakref.ref[Caller] | None:
    """Who calls: a thread, or else a task."""
    who = THREAD.get() or asyncio.current_task()
    return None if who is None else weakref.ref(who)


def named(request: m.Message) -> str:
    """What a request is, for whoever made several: a publication by its event, a subscription by its id."""
    if isinstance(request, m.Publish):
        return f"publication {shortened(repr(dict(islice(request.event.items(), 20))), 100)}: "
    if isinstance(request, m.Subscribe | m.Advertise):
        kind = "subscription" if isinstance(request, m.Subscribe) else "advertisement"
        return f"{kind} {shortened(repr(request.id), 60)}: "
    return ""


@dataclass
class _Refusal:
    text: str
    maker: weakref.ref[Caller] | None
    is_told: bool = False


class Refusals:
    """Refusals of one kind of request."""

    def __init__(self) -> None:
        self._waiting: deque[_Refusal] = deque(maxlen=MOST_REFUSALS)

    def add(self, text: str, maker: weakref.ref[Caller] | None) -> None:
        """Something that this caller asked for was refused; None if nobody knows who it was."""
        self._waiting.append(_Refusal(text, maker))

    def take(self) -> list[str]:
        """Return what the present caller is to be told."""
        me = caller()
        found: list[str] = []
        left: list[_Refusal] = []
        for refusal in self._waiting:
            is_own = refusal.maker is not None and refusal.maker == me
            if is_own or not refusal.is_told:
                found.append(refusal.text)
                refusal.is_told = True
            if not is_own and not _has_ended(refusal.maker):
                left.append(refusal)
        self._waiting = deque(left, maxlen=MOST_REFUSALS)
        return found


def _has_ended(who: weakref.ref[Caller] | None) -> bool:
    one = None if who is None else who()
    return one is None or (one.done() if isinstance(one, asyncio.Future) else not one.is_alive())
