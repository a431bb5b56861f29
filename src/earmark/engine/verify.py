"""Are the answers right? Of a search, beside a row-by-row evaluation; of a stored index, beside its own segment.

`compare` does what every index must agree with: it evaluates every subscription. Fit for production: it only reads.

`check_answers` is for an index from a file. A checksum detects accidents, not a change of arrays and checksums
together. So each clause (of many, a sample) is asked for by an event at the lower ends of its intervals, which must
find its slot; and for some of these events all answers must be those of a scan.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from earmark.engine.batch import Batch
from earmark.engine.searcher import Searcher
from earmark.engine.version import IndexedSegment
from earmark.errors import require
from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.arrays import I32, I64, U64, frozen
from earmark.index.scan import Scan
from earmark.language.words import counted
from earmark.segment.arrays import SegmentArrays, spread
from earmark.segment.evaluate import match_rows
from earmark.segment.ids import Id
from earmark.segment.life import with_lives
from earmark.threads import RUNS, cores, in_parallel, runs_of

PROBES, SCANNED, GROUP = 100_000, 1_024, 4_096
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """A pair on which search and reference disagree: `missing` from the index's answer, or `extra` in it."""

    event: int
    id: Id
    kind: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found."""

    events: int
    matches: int
    differences: tuple[Difference, ...]

    @property
    def ok(self) -> bool:
        """Whether the answers agree."""
        return not self.differences

    def __repr__(self) -> str:
        outcome = "no differences"
        if not self.ok:
            first = "; ".join(f"event {d.event}: {d.id!r} {d.kind}" for d in self.differences[:_SHOWN])
            more = "; …" if len(self.differences) > _SHOWN else ""
            outcome = f"{counted(len(self.differences), 'difference')} ({first}{more})"
        return (
            f"<Verification: {counted(self.events, 'event')}, {counted(self.matches, 'match', 'matches')}, {outcome}>"
        )


def compare(searcher: Searcher, batch: Batch) -> Verification:
    """The answers of a searcher against the reference. O(events x subscriptions)."""
    differences: list[Difference] = []
    matches, runs = 0, runs_of(len(batch), RUNS * cores())
    for number, indexed in enumerate(searcher.version.segments):
        eligible = searcher.eligible(number)
        segment, events = indexed.segment, batch.for_segment(indexed.segment)
        answers = indexed.match_many(events, eligible, cores())
        matches += len(answers[1])
        compared = partial(_differing, with_lives(segment).arrays, events, eligible, answers)
        for e, kind, odd in chain.from_iterable(in_parallel(compared, runs, cores())):
            differences.extend(Difference(e, one, kind) for one in segment.ids.named(odd.tolist()))
    return Verification(len(batch), matches, tuple(sorted(differences, key=lambda one: one.event)))


def _differing(
    table: SegmentArrays, events: EventArrays, eligible: U64, answers: tuple[I64, I32], run: tuple[int, int]
) -> list[tuple[int, str, I32]]:
    """The events of a run for which slots are missing or extra in the answers, and these slots."""
    starts, slots = answers
    out = np.empty(max(bits.count(eligible), 1), np.int32)
    found = []
    for e in range(*run):
        got, wanted = slots[starts[e] : starts[e + 1]], out[: match_rows(table, events, e, eligible, 0, out)[0]]
        found += [(e, "missing", np.setdiff1d(wanted, got)), (e, "extra", np.setdiff1d(got, wanted))]
    return [one for one in found if len(one[2])]


# --- a stored index ---------------------------------------------------------------------------------------------------


def check_answers(indexed: IndexedSegment) -> None:
    """Raise AssertionError unless the index passes its own check and answers as the segment says."""
    index = indexed.index
    if index is None:
        return
    index.check()
    arrays, eligible = indexed.segment.arrays, indexed.alive
    possible = _possible(arrays)
    owner = np.searchsorted(arrays.clause_start, possible, "right") - 1
    clauses = _sample(possible[_is_set(eligible, owner)], PROBES)
    owner = np.searchsorted(arrays.clause_start, clauses, "right") - 1
    for first in range(0, len(clauses), GROUP):
        events = _events(arrays, clauses[first : first + GROUP])
        starts, slots = index.match_many(events, eligible, cores())
        mine = slots == np.repeat(owner[first : first + GROUP], np.diff(starts))
        found = np.zeros(len(starts) - 1, bool)
        found[np.repeat(np.arange(len(found)), np.diff(starts))[mine]] = True
        require(found.all(), "it misses a subscription that its table holds")
    events = _events(arrays, _sample(clauses, SCANNED))
    starts, slots = index.match_many(events, eligible)
    right_starts, right_slots = Scan(arrays).match_many(events, eligible)
    same = np.array_equal(starts, right_starts) and np.array_equal(slots, right_slots)
    require(same, "its answers are not those of a scan")


def _possible(table: SegmentArrays) -> I64:
    """The clauses that some event matches."""
    void = (np.diff(table.interval_start) == 0) & (table.accepts_null == 0)
    possible = np.ones(len(table.constraint_start) - 1, bool)
    possible[np.searchsorted(table.constraint_start, np.flatnonzero(void), "right") - 1] = False
    return np.flatnonzero(possible)


def _is_set(bitmap: U64, slots: I64) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = ((bitmap[slots >> 6] >> (slots & 63).astype(np.uint64)) & np.uint64(1)).astype(bool)
    return found


def _sample(clauses: I64, most: int) -> I64:
    if len(clauses) <= most:
        return clauses
    return np.sort(np.random.default_rng(len(clauses)).choice(clauses, most, replace=False))


def _events(table: SegmentArrays, clauses: I64) -> EventArrays:
    """For each clause an event at the lower ends of what it asks; NULL where only NULL will do."""
    start, constraints = spread(table.constraint_start, clauses)
    first = table.interval_start[constraints]
    some = first < table.interval_start[constraints + 1]
    kept = np.concatenate([[0], np.cumsum(some)])[start].astype(np.int64)
    lo = table.lo[first[some]]
    columns = (kept, table.attr[constraints[some]], lo, lo.copy(), np.empty(0))
    return EventArrays._make(frozen(column) for column in columns)
