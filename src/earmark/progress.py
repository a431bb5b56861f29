"""Progress on anything that takes longer than a second, on a terminal; silence otherwise."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
_DELAY = 1.0
_MOST_STEP = 256
"""Quick items between two looks at the clock."""
_OFTEN = 0.01
"""Seconds between two looks at the clock, about, where items are slower."""
_PARTS = 1000


def is_shown() -> bool:
    """Whether there is a terminal to show progress on; EARMARK_QUIET=1 says no."""
    quiet = os.environ.get("EARMARK_QUIET", "0") not in ("", "0")
    return not quiet and sys.stderr is not None and sys.stderr.isatty()


def track(items: Iterable[T], total: int | None, what: str, shown: bool | None = None) -> Iterator[T]:
    """The same items, with a bar on stderr once a second has passed, and the time left if the total is known.

    `shown` None means: when stderr is a terminal and EARMARK_QUIET is not set.
    """
    wanted = is_shown() if shown is None else shown
    return _tracked(items, total, what) if wanted else iter(items)


def _tracked(items: Iterable[T], total: int | None, what: str) -> Iterator[T]:
    begun = looked = time.time()
    bar: Any = None
    done = shown = 0
    step = look = 1
    try:
        for item in items:
            yield item
            done += 1
            if done >= look:
                now = time.time()
                is_quick = now - looked < _OFTEN
                is_due = step == _MOST_STEP or not is_quick  # a smaller step says that not much was done yet
                step = min(2 * step, _MOST_STEP) if is_quick else max(1, step // 4)
                look, looked = done + step, now
                if bar is None and is_due and done != total and now - begun > _DELAY:
                    bar = _opened(total, what, begun, show_pos=True)
                if bar is not None:
                    bar.update(done - shown)
                    shown = done
        if bar is not None:
            bar.update(done - shown)
            _erase(bar)
    finally:
        _close(bar)


class Shared(Protocol):
    """Something that knows how much of the whole is done once it has been dealt with."""

    @property
    def share(self) -> float | None:
        """0 to 1; None where it is not known."""


C = TypeVar("C", bound=Shared)


def shares(chunks: Iterable[C], what: str, shown: bool = True) -> Iterator[C]:
    """The same chunks, with a bar that shows the time left, once a second has passed on a terminal."""
    if not shown or not is_shown():
        yield from chunks
        return
    begun = time.time()
    steady: float | None = None
    bar: Any = None
    done = 0
    try:
        for chunk in chunks:
            yield chunk
            if steady is None:  # the first chunk also loads modules and kernels: the time left is not like it
                steady = time.time()
            elif bar is None and chunk.share != 1 and time.time() - begun > _DELAY:
                known = chunk.share is not None
                bar = _opened(_PARTS, what, steady, show_percent=True) if known else _opened(None, what, steady)
            if bar is not None:
                parts = done + 1 if chunk.share is None else int(chunk.share * _PARTS)
                bar.update(parts - done)
                done = parts
        if bar is not None:
            _erase(bar)
    finally:
        _close(bar)


_open: list[Any] = []


def _opened(length: int | None, what: str, begun: float, **options: Any) -> Any:
    """A bar, as if it had been there since the beginning, so that its first estimate of the time left is right."""
    import click

    unknown: Iterator[None] | None = None if length else (None for _ in range(0))
    bar: Any = click.progressbar(unknown, length=length, label=what, file=sys.stderr, width=30, **options)
    bar.start = bar.last_eta = begun
    bar.__enter__()
    _open.append(bar)
    return bar


def _erase(bar: Any) -> None:
    """Take a bar away that has come to its end: what was done is what the command says next."""
    if bar in _open and bar.file.isatty():
        _open.remove(bar)
        bar.file.write("\r\x1b[K\x1b[?25h")  # an empty line, and the cursor that the bar had hidden
        bar.file.flush()


def _close(bar: Any) -> None:
    if bar in _open:
        _open.remove(bar)
        bar.__exit__(None, None, None)


def clear_line() -> None:
    """Clear the line of an open bar, so that a message can be printed there; the bar's next update draws it below."""
    for bar in _open:
        if bar.file.isatty():
            bar.file.write("\r\x1b[K")
            bar.file.flush()


def end_bars() -> None:
    """Leave the line of a bar that an error interrupts, before the error is shown."""
    for bar in list(_open):
        _close(bar)
