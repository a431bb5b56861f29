"""Requests to end (Ctrl-C, SIGTERM, SIGHUP) as an exception, so that a run cleans up.

    signal ──► Stopped, in the main thread ──► `with` and `finally` undo what is half done ──► exit code 128 + n

Three cases need care:

* A second Ctrl-C would interrupt the cleaning: for a second after the first, signals are ignored.
* Python drops exceptions that are raised inside a destructor or a callback from C, and goes on: then Stopped is raised
  again a moment later.
* A library that is being imported turns it into an error of its own: `stopped_by` says that a signal was the cause.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
CLEANING = 1.0  # seconds that belong to the first signal
SOON = 0.01
SIGNALLED = 128  # plus the number of the signal is the exit code that shells know


class Stopped(BaseException):
    """A signal ended the run. Not a child of Exception, so that libraries do not catch it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = SIGNALLED + number


# Numbers and times. Not the exceptions: they would keep the objects of the run alive until the interpreter exits.
_stopped: list[tuple[int, float]] = []


def stopped_by() -> int | None:
    """Return the number of the signal that has come, if one has."""
    return _stopped[-1][0] if _stopped else None


def _stop(number: int, frame: Any) -> None:
    if _stopped and time.monotonic() - _stopped[-1][1] < CLEANING:
        return
    _stopped.append((number, time.monotonic()))
    raise Stopped(number)


def _stop_again(number: int, frame: Any) -> None:
    raise Stopped(_stopped[-1][0])


def _dropped(unraisable: Any) -> None:
    """Raise Stopped again soon, where Python had to drop it."""
    if isinstance(unraisable.exc_value, Stopped):
        signal.setitimer(signal.ITIMER_REAL, SOON)
    else:
        sys.__unraisablehook__(unraisable)


@contextlib.contextmanager
def signals_stop() -> Iterator[None]:
    """Let signals raise Stopped inside; afterwards ignore Ctrl-C, since the run is over. Only in the main thread."""
    handlers = dict.fromkeys(NAMES, _stop) | {"SIGALRM": _stop_again}
    for name, handler in handlers.items():
        with contextlib.suppress(ValueError, AttributeError):  # another thread; a system without this signal
            number = getattr(signal, name)
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):  # nohup stays nohup
                signal.signal(number, handler)
                sys.unraisablehook = _dropped
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
