"""Encoded events as a packed file, for workers."""

from __future__ import annotations

from pathlib import Path

from earmark.book.packed_file import read_packed, write_packed
from earmark.events.arrays import EventArrays

_KIND = "events"


def write_events(file: Path, events: EventArrays) -> None:
    """Write encoded events to a new file."""
    write_packed(file, _KIND, {}, events._asdict())


def read_events(file: Path) -> EventArrays:
    """Map what was written."""
    return EventArrays(**read_packed(file, _KIND).arrays)
