"""Which event of a file an error is about.

A search names events by their number in the batch that it was given, if at all; whoever reads a file wants the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from earmark.errors import EarmarkError
from earmark.tabular.read import Chunk
from earmark.tabular.source import Source

_EVENT = re.compile(r"event (\d+)(: | )")
_WHOSE = re.compile(r"\bevent \d+'s value\b")  # numbered within a batch, so of no use to whoever reads a file


def locate(problem: EarmarkError, source: Source, group: Chunk, refused: Callable[[Any], bool]) -> EarmarkError:
    """The same problem, with the file and the event's line or row in it.

    `refused` says whether some of the group's rows cause an error, for problems that do not name their event.
    """
    number, text = _split(str(problem))
    row = number if number is not None else _first_refused(group.rows, refused)
    where = str(source) if row is None else group.place(source, row)
    return type(problem)(f"{where}: {text}")


def without_number(problem: EarmarkError) -> EarmarkError:
    """The same problem of a single event, which has no number."""
    return type(problem)(_split(str(problem))[1])


def _split(text: str) -> tuple[int | None, str]:
    """The number of the event, if a message begins with it, and the rest of the message."""
    text = _WHOSE.sub("an event's value", text)
    found = _EVENT.match(text)
    if not found:
        return None, text
    return int(found[1]), f"{'' if found[2] == ': ' else 'the event '}{text[found.end() :]}"


def _first_refused(rows: Any, refused: Callable[[Any], bool]) -> int | None:
    """The first row without which a refused group would pass; None when the problem is not about rows at all."""
    low, high = 0, len(rows)  # the first `low` rows pass, the first `high` do not
    if refused(rows[:0]):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if refused(rows[:middle]):
            high = middle
        else:
            low = middle
    return low
