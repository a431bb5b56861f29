"""Which changes of a journal are about an id? The index of its history, by hashes of ids.

    touched    hash, change, part: a row for each, of changes with few rows
    pages      the same for changes of many rows, as arrays: for each of 1,024 slots (the upper bits of a hash) and each
               such change, the hashes in it and their parts

`Sums` compares the index with the changes: for each change the sum of a mixed number of each of its pairs of hash and
part, whatever their order. A pair too many, too few or wrong changes the sum, except once in 2^64 times.

**Complexity.** The changes of an id: O(those + rows in all / 1,024) bytes. `Sums`: 8 bytes per change.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.book.rows import Part

FEW_TOUCHED = 1 << 12
"""Changes of more rows than this have their ids in pages."""
SLOTS = 1 << 10
TABLES = """
CREATE TABLE touched (hash INTEGER NOT NULL, change INTEGER NOT NULL, part INTEGER NOT NULL,
    PRIMARY KEY (hash, change, part)) WITHOUT ROWID;
CREATE TABLE pages (slot INTEGER NOT NULL, change INTEGER NOT NULL, hashes BLOB NOT NULL, parts BLOB NOT NULL,
    PRIMARY KEY (slot, change)) WITHOUT ROWID;
"""
_ROWS_AT_ONCE = 1 << 16
_FEW = 16
"""Fewer pairs than this are summed without arrays, which is quicker."""
_PART_BITS = 20
_ADDED, _STEPS, _MASK = 0x9E3779B97F4A7C15, ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)), 2**64 - 1
_U64 = NDArray[np.uint64]


def touch(connection: Any, number: int, by_part: Sequence[Any]) -> None:
    """Note which hashes a change is about, part by part."""
    if sum(map(len, by_part)) <= FEW_TOUCHED:
        rows = {(int(one), number, part) for part, hashes in enumerate(by_part) for one in hashes}
        connection.executemany("INSERT INTO touched VALUES (?,?,?)", rows)
        return
    hashes = np.concatenate([np.asarray(own, np.int64) for own in by_part])
    parts = np.repeat(np.arange(len(by_part)), [len(own) for own in by_part])
    order = np.argsort(hashes, kind="stable")
    hashes, parts = hashes[order].astype(np.uint32), parts[order].astype(np.uint32)
    ends = np.searchsorted(_slots(hashes), np.arange(SLOTS + 1)).tolist()
    connection.executemany(
        "INSERT INTO pages VALUES (?,?,?,?)",
        (
            (slot, number, hashes[begin:end].tobytes(), parts[begin:end].tobytes())
            for slot, (begin, end) in enumerate(itertools.pairwise(ends))
            if begin < end
        ),
    )


def touching(connection: Any, hashed: int) -> dict[int, list[int]]:
    """By number, the changes that may be about an id with this hash, and which of their parts."""
    found: dict[int, list[int]] = {}
    rows = connection.execute("SELECT change, part FROM touched WHERE hash = ?", (hashed,)).fetchall()
    pages = connection.execute(
        "SELECT change, hashes, parts FROM pages WHERE slot = ?", (hashed * SLOTS >> 32,)
    ).fetchall()
    for change, part in rows:
        found.setdefault(change, []).append(part)
    for change, hashes, parts in pages:
        at = np.flatnonzero(np.frombuffer(hashes, np.uint32) == hashed)
        if len(at):
            found.setdefault(change, []).extend(np.frombuffer(parts, np.uint32)[at].tolist())
    return dict(sorted(found.items()))


def forget(connection: Any, hashed: int, number: int, left: Iterable[int]) -> None:
    """Take a hash out of a change, except of the parts that are left: those with another id of this hash."""
    kept = set(left)
    for (part,) in connection.execute(
        "SELECT part FROM touched WHERE hash = ? AND change = ?", (hashed, number)
    ).fetchall():
        if part not in kept:
            connection.execute("DELETE FROM touched WHERE hash = ? AND change = ? AND part = ?", (hashed, number, part))
    where = (hashed * SLOTS >> 32, number)
    for hashes, parts in connection.execute(
        "SELECT hashes, parts FROM pages WHERE slot = ? AND change = ?", where
    ).fetchall():
        own, their = np.frombuffer(hashes, np.uint32), np.frombuffer(parts, np.uint32)
        stays = (own != hashed) | np.isin(their, list(kept))
        connection.execute(
            "UPDATE pages SET hashes = ?, parts = ? WHERE slot = ? AND change = ?",
            (own[stays].tobytes(), their[stays].tobytes(), *where),
        )


class Sums:
    """What the index says of each change between two, as one number per change."""

    def __init__(self, connection: Any, first: int, last: int) -> None:
        self._first = first
        self._sums: _U64 = np.zeros(max(last - first + 1, 0), np.uint64)
        rows = connection.execute("SELECT hash, change, part FROM touched")
        while some := rows.fetchmany(_ROWS_AT_ONCE):
            hashes, changes, parts = np.array(some, np.int64).T
            self._add(changes, _mixed(_pairs(hashes, parts)))
        for slot, change, hashes, parts in connection.execute("SELECT slot, change, hashes, parts FROM pages"):
            own, their = np.frombuffer(hashes, np.uint32), np.frombuffer(parts, np.uint32)
            if len(own) == len(their) and (_slots(own) == slot).all():  # in other pages, nothing would be found
                self._add(np.array([change]), np.sum(_mixed(np.unique(_pairs(own, their))), keepdims=True))

    def _add(self, changes: Any, mixed: _U64) -> None:
        at = changes - self._first
        inside = (at >= 0) & (at < len(self._sums))
        np.add.at(self._sums, at[inside], mixed[inside])

    def agree(self, number: int, parts: Sequence[Part]) -> bool:
        """Whether a change is found by the ids of its parts, and by nothing else."""
        return int(self._sums[number - self._first]) == _sum_of(parts)


def _sum_of(parts: Sequence[Part]) -> int:
    if sum(len(part.hashes) for part in parts) < _FEW:
        pairs = {int(one) << _PART_BITS | place for place, part in enumerate(parts) for one in part.hashes}
        return sum(map(_mixed_one, pairs)) & _MASK
    hashes = np.concatenate([np.asarray(part.hashes, np.int64) for part in parts])
    places = np.repeat(np.arange(len(parts)), [len(part.hashes) for part in parts])
    return int(np.sum(_mixed(np.unique(_pairs(hashes, places)))))


def _slots(hashes: Any) -> Any:
    return hashes.astype(np.int64) * SLOTS >> 32


def _pairs(hashes: Any, parts: Any) -> Any:
    """Hash and part in one number. Two ids of a part may have the same hash, and then count once."""
    return hashes.astype(np.int64) << _PART_BITS | parts.astype(np.int64)


def _mixed(pairs: Any) -> _U64:
    """A number of 64 bits for each pair, every bit of which depends on all of the pair (splitmix64)."""
    mixed: _U64 = pairs.astype(np.uint64) + np.uint64(_ADDED)
    for shift, factor in _STEPS:
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def _mixed_one(pair: int) -> int:
    """The same for one pair."""
    mixed = pair + _ADDED & _MASK
    for shift, factor in _STEPS:
        mixed = (mixed ^ (mixed >> shift)) * factor & _MASK
    return mixed ^ (mixed >> 31)
