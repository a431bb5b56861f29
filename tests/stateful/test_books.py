"""Whole lifetimes of a book in a folder: changes, compaction, saves, opening old and new versions, pins, removal.

The model is a dictionary of rows in the order of insertion, scanned; and for every version in the folder, what it
answered when it was saved. Limits are so small here that segments are merged, keys run out of gaps and files of keys
are joined all the time.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from earmark import Matcher, TableError
from earmark.book import folder as folders
from earmark.engine import compaction
from earmark.keys import strings

seeds = st.integers(0, 2**32).map(Random)
LETTERS = "abé"
SCOPES = (None, {"t": "1"})
WIDE = 2**53 + 1


def text(rng: Random) -> str:
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 4)))


def condition(rng: Random) -> str:
    parts = []
    for _ in range(rng.randint(1, 3)):
        parts.append(
            rng.choice(
                (
                    f"n {rng.choice(('<', '>=', '=', '!='))} {rng.randint(-2, 6)}",
                    f"n BETWEEN {rng.randint(-2, 3)} AND {rng.randint(2, 6)}.5",
                    f"s {rng.choice(('<', '>', '=', '>='))} '{text(rng)}'",
                    f"s LIKE '{text(rng)}%'",
                    f"u IN ('{text(rng)}', '{text(rng)}')",
                    "n IS NULL",
                    "s IS NOT NULL",
                    f"d >= '2024-0{rng.randint(1, 9)}-01'",
                    f"m > {rng.randint(0, 9)}.25",
                    f"w = {WIDE + rng.randint(-1, 1)}",
                    "TRUE",
                )
            )
        )
    return rng.choice((" AND ", " OR ")).join(parts)


def row(rng: Random) -> dict[str, Any]:
    tags = rng.choice((None, None, {"t": "1"}, {"t": "1", "u": "2"}))
    return {"condition": condition(rng), "score": rng.choice((0.0, 0.5, 2.0)), "tags": tags}


EVENTS: list[dict[str, Any]] = [
    {"n": 1, "s": "ab", "u": "", "w": WIDE},
    {"n": 5.5, "s": "é", "d": "2024-05-02", "m": 3.5},
    {"s": "", "u": "ab", "w": WIDE - 1},
    {"n": -2, "s": "bbb", "u": "é", "m": 0.25},
    {"d": "2024-09-30"},
    {},
]
TYPES = {"d": "date", "m": "decimal(9,2)", "w": "number"}


def events() -> list[dict[str, Any]]:
    from datetime import date

    return [{n: date.fromisoformat(v) if n == "d" else v for n, v in event.items()} for event in EVENTS]


def answers(m: Matcher) -> list[Any]:
    """All that a user can see."""
    given = events()
    found = [m.match_many(given, scope=scope).to_pylist() for scope in SCOPES]
    found += [m.top_k_many(given, 3, mode=mode).to_pylist() for mode in ("exact", "relaxed")]
    return [*found, m.ids(), [m[one] for one in m.ids()]]


class Books(RuleBasedStateMachine):
    """One folder, and one matcher that writes to it."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="earmark-books-"))
        self.folder = self.root / "book"
        self.kept = (compaction.SHORTEST_TAIL, compaction.SMALLEST_SHRINK, strings._STRIDE)
        compaction.SHORTEST_TAIL, compaction.SMALLEST_SHRINK, strings._STRIDE = 3, 4, 2**58
        self.share, compaction.SHARE_AT_ONCE = compaction.SHARE_AT_ONCE, 0.5
        self.rows: dict[int, dict[str, Any]] = {}
        self.number = 0
        self.versions: dict[int, list[Any]] = {}
        self.pinned: set[int] = set()

    def teardown(self) -> None:
        compaction.SHORTEST_TAIL, compaction.SMALLEST_SHRINK, strings._STRIDE = self.kept
        compaction.SHARE_AT_ONCE = self.share
        shutil.rmtree(self.root)

    @initialize(index=st.sampled_from(["scan", "blocks", "be_star_tree"]))
    def start(self, index: str) -> None:
        self.index = index
        self.m = Matcher(index, attributes=TYPES)

    def scanned(self) -> list[Any]:
        model = Matcher("scan", attributes=TYPES)
        model.add_many([{"id": one, **own} for one, own in self.rows.items()], progress=False)
        return answers(model)

    # --- changes -------------------------------------------------------------------------------------------------

    @rule(rng=seeds, count=st.integers(1, 6))
    def add(self, rng: Random, count: int) -> None:
        new = {self.number + i: row(rng) for i in range(count)}
        self.number += count
        self.m.add_many([{"id": one, **own} for one, own in new.items()], progress=False)
        self.rows |= new

    @precondition(lambda self: self.rows)
    @rule(rng=seeds, count=st.integers(1, 4))
    def remove(self, rng: Random, count: int) -> None:
        gone = rng.sample(sorted(self.rows), min(count, len(self.rows)))
        self.m.remove_many(gone)
        for one in gone:
            del self.rows[one]

    @precondition(lambda self: self.rows)
    @rule(rng=seeds)
    def update(self, rng: Random) -> None:
        one, own = rng.choice(sorted(self.rows)), row(rng)
        self.m.update(one, **own)
        self.rows[one] = own

    @rule()
    def compact(self) -> None:
        self.m.compact()

    @rule()
    def wait_for_merges(self) -> None:
        self.m._compactor.wait(60)
        assert self.m._compactor.problem is None

    # --- the folder ----------------------------------------------------------------------------------------------

    @rule()
    def save(self) -> None:
        self.m.save(self.folder)
        newest = folders.current_version(self.folder)
        before = [number for number in self.versions if number in folders.version_numbers(self.folder)]
        self.versions[newest] = self.scanned()
        stay = {newest, *self.pinned, *sorted(before)[-1:]}
        self.versions = {number: own for number, own in self.versions.items() if number in stay}
        assert folders.version_numbers(self.folder) == sorted(self.versions)
        stored = {one.name for kind in ("segments", "keys") for one in (self.folder / kind).iterdir()}
        listed = {file.name for n in self.versions for file in folders.files_of(folders.read_record(self.folder, n))}
        assert stored == listed

    @precondition(lambda self: self.versions)
    @rule(mmap=st.booleans(), other=st.booleans())
    def load(self, mmap: bool, other: bool) -> None:
        """Go on with what is in the folder; what was not saved is gone."""
        index = "blocks" if other else None
        self.m = Matcher.load(self.folder, mmap=mmap, index=index)
        newest = folders.current_version(self.folder)
        assert answers(self.m) == self.versions[newest]
        self.rows = {
            one: {"condition": own.condition, "score": own.score, "tags": own.tags}
            for one in self.m.ids()
            for own in [self.m[one]]
        }

    @precondition(lambda self: self.versions)
    @rule(rng=seeds)
    def pin(self, rng: Random) -> None:
        number = rng.choice(sorted(self.versions))
        folders.pin(self.folder, number, "test")
        self.pinned.add(number)

    @precondition(lambda self: self.pinned)
    @rule(rng=seeds)
    def unpin(self, rng: Random) -> None:
        number = rng.choice(sorted(self.pinned))
        folders.unpin(self.folder, number, "test")
        self.pinned.remove(number)

    @precondition(lambda self: self.versions)
    @rule(keep=st.integers(1, 3))
    def remove_old_versions(self, keep: int) -> None:
        gone = folders.remove_versions(self.folder, lambda known: {one.number for one in known[:-keep]})
        stay = set(sorted(self.versions)[-keep:]) | self.pinned
        assert set(gone) == set(self.versions) - stay
        self.versions = {number: own for number, own in self.versions.items() if number in stay}

    @precondition(lambda self: self.versions)
    @rule(rng=seeds)
    def open_one(self, rng: Random) -> None:
        """Any version that is there is what it was; one that is not is refused."""
        number = rng.choice(sorted(self.versions))
        opened = Matcher.load(self.folder, version=number)
        assert answers(opened) == self.versions[number]
        opened.check()
        gone = sorted(set(range(1, max(self.versions))) - set(self.versions))
        if gone:
            with pytest.raises(TableError, match="has no version"):
                Matcher.load(self.folder, version=gone[0])

    @invariant()
    def answers_are_those_of_a_scan(self) -> None:
        if hasattr(self, "m"):
            assert self.m.match_many(events()).to_pylist() == self.scanned()[0]
            self.m.check()


Books.TestCase.settings = settings(max_examples=25, stateful_step_count=30)
TestBooks = Books.TestCase
