"""Progress on anything that takes longer than a second, on a terminal; silence otherwise."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
_DELAY = 1.0
_STEP = 256


def track(items: Iterable[T], total: int | None, what: str, shown: bool | None = None) -> Iterator[T]:
    """The same items, with a bar on stderr once a second has passed.

    `shown` None means: when stderr is a terminal and EARMARK_QUIET is not set.
    """
    if shown is None:
        shown = sys.stderr.isatty() and not os.environ.get("EARMARK_QUIET")
    return _tracked(items, total, what) if shown else iter(items)


def _tracked(items: Iterable[T], total: int | None, what: str) -> Iterator[T]:
    begun = time.monotonic()
    bar: Any = None
    done = shown = 0
    try:
        for item in items:
            yield item
            done += 1
            if done % _STEP == 0:
                if bar is None and time.monotonic() - begun > _DELAY:
                    bar = _bar(total or 0, what, show_pos=True)
                if bar is not None:
                    bar.update(done - shown)
                    shown = done
    finally:
        if bar is not None:
            bar.update(done - shown)
            bar.__exit__(None, None, None)


C = TypeVar("C", bound="Shared")


class Shared(Protocol):
    """Something that knows how much of the whole is done once it has been dealt with."""

    @property
    def share(self) -> float:
        """0 to 1."""


def shares(chunks: Iterable[C], what: str) -> Iterator[C]:
    """The same chunks, with a bar that shows the time left, once a second has passed on a terminal."""
    if not sys.stderr.isatty() or os.environ.get("EARMARK_QUIET"):
        yield from chunks
        return
    begun = time.monotonic()
    bar: Any = None
    done = 0
    try:
        for chunk in chunks:
            yield chunk
            if bar is None and time.monotonic() - begun > _DELAY:
                bar = _bar(1000, what, show_percent=True)
            if bar is not None:
                bar.update(int(chunk.share * 1000) - done)
                done = int(chunk.share * 1000)
    finally:
        if bar is not None:
            bar.__exit__(None, None, None)


def _bar(length: int, what: str, **options: Any) -> Any:
    import click

    bar: Any = click.progressbar(length=length, label=what, file=sys.stderr, **options)
    bar.__enter__()
    return bar
