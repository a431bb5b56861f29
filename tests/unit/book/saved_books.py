"""Saved books to spoil: what is in them, and files and records changed under right checksums."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from earmark import Matcher
from earmark.book.folder import CURRENT, KEYS, RECORD, SEGMENTS, sealed, version_folder
from earmark.book.segments import read_packed, write_packed
from earmark.errors import TableError

TYPES = {"d": "date", "m": "decimal(9,2)", "unused": "timestamp"}
CONDITIONS = [
    "age BETWEEN 22 AND 36 AND city IN ('Oslo', 'Rome', 'Ürümqi 🏙')",
    "age < 3 AND age > 5",
    "price > 1.5D OR city LIKE 'pre%' OR ok",
    "d >= '2024-02-29' AND m != 1.25 AND NOT (age = 7)",
    "city IS NULL AND price IS NOT NULL",
    "TRUE",
]
EVENTS = [
    {"age": 30, "city": "Rome"},
    {"price": 2.0, "city": "prefix"},
    {"ok": True},
    {"d": None, "price": 1.0},
    {"age": 8, "m": 2, "city": "Ürümqi 🏙"},
]


def filled(integers: bool = False, tags: bool = True) -> Matcher:
    m = Matcher("scan", attributes=TYPES, zone="Europe/Paris")
    for i, condition in enumerate(CONDITIONS):
        own = {"tenant": f"t{i % 2}", "émoji": "🏷"} if tags and i else None
        weights = {"age": 0.25} if "age" in condition else None
        m.add(i * 10 if integers else f"sub {i} é", condition, weights=weights, score=i / 2, tags=own)
    m.add(999 if integers else "gone", "age = 1 AND city = 'nowhere'")
    m.remove(999 if integers else "gone")
    return m


def answers(m: Matcher) -> list[Any]:
    found: list[Any] = [[m.match(event), m.top_k(event, mode="relaxed")] for event in EVENTS]
    return [*found, m.match(EVENTS[0], scope={"tenant": "t0"}), m.ids(), [m[one] for one in m.ids()]]


def record_of(folder: Path) -> dict[str, Any]:
    """The record of the newest version."""
    number = json.loads((folder / CURRENT).read_bytes())["version"]
    read: dict[str, Any] = json.loads((version_folder(folder, number) / RECORD).read_bytes())
    return read


def segment_file(folder: Path, number: int = 0) -> Path:
    return folder / SEGMENTS / str(record_of(folder)["segments"][number]["file"])


def reseal(folder: Path, change: Callable[[dict[str, Any]], object] | None = None) -> None:
    """Give the newest record and CURRENT checksums that are right again, after a change to the record."""
    record = record_of(folder)
    file = version_folder(folder, record["version"]) / RECORD
    if change is not None:
        change(record)
    record.pop("checksum", None)
    record = sealed(record)
    file.write_text(json.dumps(record))
    point = json.loads((folder / CURRENT).read_bytes())
    point["record"] = record["checksum"]
    point.pop("checksum")
    (folder / CURRENT).write_text(json.dumps(sealed(point)))


def refused(folder: Path, match: str = ".") -> None:
    for mmap in (True, False):
        with pytest.raises(TableError, match=match) as problem:
            Matcher.load(folder, mmap=mmap)
        assert "\n" not in str(problem.value)


def arrays_in(folder: Path) -> dict[str, tuple[Path, str]]:
    """Every array of the newest version: its file, and the kind of the file."""
    record, found = record_of(folder), {}
    listed = [(SEGMENTS, "segment", entry) for entry in record["segments"]]
    for place, kind, entry in [*listed, *((KEYS, "keys", entry) for entry in record["keys"])]:
        file = folder / place / entry["file"]
        found.update(dict.fromkeys(read_packed(file, kind).arrays, (file, kind)))
    return found


def change_array(folder: Path, name: str, change: Callable[[np.ndarray[Any, Any]], Any]) -> None:
    """Put another array in a file, under right checksums."""
    file, kind = arrays_in(folder)[name]
    opened = read_packed(file, kind, mmap=False)
    arrays = {own: array.copy() for own, array in opened.arrays.items()}
    arrays[name] = change(arrays[name])
    replace_file(folder, file, kind, opened.about, arrays)


def replace_file(folder: Path, file: Path, kind: str, about: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write a packed file again, and record it."""
    file.unlink()
    record_file(folder, file, write_packed(file, kind, about, arrays))


def record_file(folder: Path, file: Path, new: dict[str, Any]) -> None:
    """Record what a file is now."""

    def change(record: dict[str, Any]) -> None:
        for entry in (*record["segments"], *record["keys"]):
            if entry["file"] == file.name:
                entry.update(new)

    reseal(folder, change)
