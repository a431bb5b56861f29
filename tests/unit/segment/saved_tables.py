"""Saved tables to spoil: what is in them, and files and manifests changed under right checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from earmark import Matcher
from earmark.errors import TableError
from earmark.segment.files import MANIFEST
from earmark.segment.files import open_stored as open_table

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
    return [*found, m.match(EVENTS[0], scope={"tenant": "t0"}), m.ids(), [m.get(one) for one in m.ids()]]


def manifest_of(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
    return read


def data_of(folder: Path) -> Path:
    return folder / str(manifest_of(folder)["data"])


def sealed(folder: Path, change: Callable[[dict[str, Any]], object] | None = None) -> None:
    """Give every file and the manifest checksums that are right again, after a change to the manifest."""
    manifest = manifest_of(folder)
    for name, entry in manifest["files"].items():
        raw = (folder / manifest["data"] / name).read_bytes()
        entry.update(bytes=len(raw), blake2b=hashlib.blake2b(raw, digest_size=16).hexdigest())
    if change is not None:
        change(manifest)
    manifest.pop("blake2b")
    body = json.dumps(manifest, sort_keys=True).encode()
    manifest["blake2b"] = hashlib.blake2b(body, digest_size=16).hexdigest()
    (folder / MANIFEST).write_text(json.dumps(manifest))


def refused(folder: Path, match: str = ".") -> None:
    for mmap in (True, False):
        with pytest.raises(TableError, match=match):
            open_table(folder, mmap)


def change_array(folder: Path, name: str, change: Callable[[np.ndarray[Any, Any]], Any]) -> None:
    """Put another array in a file, with right checksums."""
    file = data_of(folder) / f"{name}.npy"
    np.save(file, change(np.load(file).copy()))
    sealed(folder)
