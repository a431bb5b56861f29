"""Progress on anything that takes longer than a second, on a terminal; silence otherwise."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

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
                    import click

                    bar = click.progressbar(length=total or 0, label=what, file=sys.stderr, show_pos=True)
                    bar.__enter__()
                if bar is not None:
                    bar.update(done - shown)
                    shown = done
    finally:
        if bar is not None:
            bar.update(done - shown)
            bar.__exit__(None, None, None)
