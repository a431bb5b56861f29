"""Rule hygiene: which subscriptions say the same, which are implied by others, which can never match?

    duplicates      conditions that take exactly the same events, however they are written
    covered         every event that matches it also matches another one, and not the other way round
    never           no event can match it
    never_clauses   an alternative of its OR that no event can match
    everything      every event matches it, the empty one too

A subscription is counted once: among those that never match, else among the duplicates of an older one, else among the
covered. For each covered one the report names one that covers it and is itself to stay, so all that are redundant can
go together, and every event still matches somebody. Only conditions are compared: scores, weights and tags are not.

What covering means, and what it leaves open across several clauses, stands in `contract.py`; docs/hygiene.md tells it
to users.

Complexity: O(n log n) to find duplicates, then one covering query for each different condition (`blocks.py`). Questions
about one subscription (`Relations`) are answered by scans, or from an index when there are many of them (`mics.py`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from earmark.cover.blocks import Blocks
from earmark.cover.canonical import canonized
from earmark.cover.containment import slot_contains
from earmark.cover.mics import Related
from earmark.flat import bits
from earmark.flat.types import I32, I64, U64, A
from earmark.jit import kernel
from earmark.language.words import counted
from earmark.segment.arrays import SegmentArrays
from earmark.segment.explain import clause_texts
from earmark.segment.ids import Id
from earmark.segment.segment import Segment

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 10
"""Findings of a kind that a report for people lists."""


@dataclass(frozen=True, slots=True)
class Covered:
    """A subscription, and one that every event of it also matches."""

    id: Id
    by: Id


@dataclass(frozen=True, slots=True)
class NeverClause:
    """An alternative that no event can match: its number, from 1, and what it asks."""

    id: Id
    clause: int
    text: str


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found, in order of insertion; `str()` is made for people."""

    subscriptions: int
    duplicates: tuple[tuple[Id, ...], ...]
    covered: tuple[Covered, ...]
    never: tuple[Id, ...]
    never_clauses: tuple[NeverClause, ...]
    everything: tuple[Id, ...]

    @property
    def redundant(self) -> tuple[Id, ...]:
        """Subscriptions that can be removed without leaving any event unmatched."""
        younger = [one for group in self.duplicates for one in group[1:]]
        return (*self.never, *younger, *(one.id for one in self.covered))

    @property
    def clean(self) -> bool:
        """Whether nothing was found (subscriptions that match everything are no fault)."""
        return not (self.duplicates or self.covered or self.never or self.never_clauses)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries, for JSON."""
        return {**asdict(self), "redundant": list(self.redundant)}

    def to_arrow(self) -> pa.Table:
        """One row per finding: (finding, subscription, other, clause, text); other is the one that covers it."""
        import pyarrow as pa

        rows: list[tuple[Any, ...]] = [("duplicate", b, g[0], None, None) for g in self.duplicates for b in g[1:]]
        rows += [("covered", one.id, one.by, None, None) for one in self.covered]
        rows += [("never", one, None, None, None) for one in self.never]
        rows += [("never clause", one.id, None, one.clause, one.text) for one in self.never_clauses]
        rows += [("everything", one, None, None, None) for one in self.everything]
        kind = pa.int64() if rows and isinstance(rows[0][1], int) else pa.string()
        types = (pa.string(), kind, kind, pa.int32(), pa.string())
        columns = list(zip(*rows, strict=True)) or [()] * len(types)
        names = ("finding", "subscription", "other", "clause", "text")
        return pa.table({n: pa.array(c, t) for n, c, t in zip(names, columns, types, strict=True)})

    def report(self, shown: int = SHOWN) -> str:
        """The findings for people: counts, and the first `shown` of each kind."""
        groups = len(self.duplicates)
        lines = [f"{counted(self.subscriptions, 'subscription')}, {len(self.redundant):,} of them redundant"]
        lines += _part(
            counted(self._duplicates, "duplicate"),
            [f"{group[0]!r} = {', '.join(map(repr, group[1:]))}" for group in self.duplicates[:shown]],
            groups,
        )
        covered = [f"{one.id!r} is covered by {one.by!r}" for one in self.covered[:shown]]
        lines += _part(f"{len(self.covered):,} covered by another", covered, len(self.covered))
        lines += _part(self._never_match(), [repr(one) for one in self.never[:shown]], len(self.never))
        clauses = [f"{one.id!r}, clause {one.clause}: {one.text}" for one in self.never_clauses[:shown]]
        head = counted(len(self.never_clauses), "clause never matches", "clauses never match")
        lines += _part(head, clauses, len(self.never_clauses))
        everything = [repr(one) for one in self.everything[:shown]]
        head = counted(len(self.everything), "matches everything", "match everything")
        lines += _part(head, everything, len(self.everything))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        findings = [
            (self._duplicates, counted(self._duplicates, "duplicate")),
            (len(self.covered), f"{len(self.covered):,} covered"),
            (len(self.never), self._never_match()),
            (len(self.never_clauses), counted(len(self.never_clauses), "clause never matches", "clauses never match")),
        ]
        text = ", ".join(text for count, text in findings if count) or "nothing found"
        return f"<Audit of {counted(self.subscriptions, 'subscription')}: {text}>"

    @property
    def _duplicates(self) -> int:
        return sum(len(group) - 1 for group in self.duplicates)

    def _never_match(self) -> str:
        return counted(len(self.never), "never matches", "never match")


def _part(head: str, examples: list[str], count: int) -> list[str]:
    if not count:
        return []
    more = [f"    … and {count - len(examples):,} more"] if count > len(examples) else []
    return [f"  {head}", *(f"    {example}" for example in examples), *more]


class Relations:
    """Who covers whom in a segment."""

    def __init__(self, view: Segment, eligible: U64 | None = None) -> None:
        """Of all subscriptions, or of those in a bitmap."""
        self.view = view
        made = canonized(view.arrays, view.schema)
        self.table, self._never_clause = made.table, made.never
        slots = bits.to_slots(bits.all_set(len(view)) if eligible is None else eligible).astype(np.int64)
        self.slots: I64 = self._by_age(slots)
        self._related: Related | None = None

    @property
    def related(self) -> Related:
        """What questions about one subscription are asked of: a scan at first, then an index, kept as long as this."""
        if self._related is None:
            self._related = Related(self.table, np.sort(self.slots).astype(np.int32))
        return self._related

    def covered_by(self, slot: int) -> list[Id]:
        """Those that cover a subscription, in order of insertion. Of equals, the older cover the younger."""
        return self._named(self.related.covering(slot))

    def covers(self, slot: int) -> list[Id]:
        """Those that a subscription covers, in order of insertion."""
        return self._named(self.related.covered(slot))

    def meeting(self, slot: int) -> I64:
        """All that take an event that a subscription takes, and perhaps others, in order of insertion."""
        return self._by_age(self.related.meeting(slot))

    def audit(self) -> Audit:
        """Everything at once."""
        table, slots = self.table, self.slots
        empty = np.diff(table.clause_start)[slots] == 0
        matching = slots[~empty]
        first = first_equal(table, matching)
        kept = matching[first == matching]
        return Audit(
            subscriptions=len(slots),
            duplicates=self._duplicates(matching, first),
            covered=self._covered(kept),
            never=tuple(self.view.ids[slot] for slot in slots[empty].tolist()),
            never_clauses=self._never_clauses(matching),
            everything=tuple(self.view.ids[slot] for slot in matching[self._takes_all(matching)].tolist()),
        )

    def _by_age(self, slots: A) -> A:
        return slots[np.argsort(self.table.sequence[slots], kind="stable")]  # type: ignore[return-value]

    def _named(self, found: I32) -> list[Id]:
        return [self.view.ids[slot] for slot in self._by_age(found).tolist()]

    def _duplicates(self, slots: I64, first: I64) -> tuple[tuple[Id, ...], ...]:
        groups: dict[int, list[Id]] = {}
        for slot, leader in zip(slots[first != slots].tolist(), first[first != slots].tolist(), strict=True):
            groups.setdefault(leader, [self.view.ids[leader]]).append(self.view.ids[slot])
        leaders = sorted(groups, key=lambda slot: int(self.table.sequence[slot]))
        return tuple(tuple(groups[leader]) for leader in leaders)

    def _covered(self, kept: I64) -> tuple[Covered, ...]:
        """Of different conditions, those that another one covers, with one that nothing covers."""
        chosen = kept.astype(np.int32)
        pointers, above = Blocks.build(self.table, np.sort(chosen)).covering_batch(chosen, 1)
        some = np.diff(pointers) == 1
        up = dict(zip(chosen[some].tolist(), above.tolist(), strict=True))
        ids = self.view.ids
        found = []
        for slot, over in up.items():
            top = over
            while top in up:
                top = up[top]
            up[slot] = top  # so that the next chain is short
            found.append(Covered(ids[slot], ids[top]))
        return tuple(found)

    def _never_clauses(self, slots: I64) -> tuple[NeverClause, ...]:
        start = self.view.arrays.clause_start
        broken = np.flatnonzero(self._never_clause)
        owner = np.searchsorted(start, broken, "right") - 1
        wanted = np.isin(owner, slots)
        found = []
        for clause, slot in zip(broken[wanted].tolist(), owner[wanted].tolist(), strict=True):
            number = clause - int(start[slot])
            text = " AND ".join(clause_texts(self.view, slot)[number].values())
            found.append((int(self.table.sequence[slot]), NeverClause(self.view.ids[slot], number + 1, text)))
        return tuple(one for _, one in sorted(found, key=lambda pair: (pair[0], pair[1].clause)))

    def _takes_all(self, slots: I64) -> Any:
        free = np.flatnonzero(np.diff(self.table.constraint_start) == 0)
        owners = np.searchsorted(self.table.clause_start, free, "right") - 1
        return np.isin(slots, owners)


def audit(view: Segment, eligible: U64 | None = None) -> Audit:
    """The audit of a segment's subscriptions, or of those in a bitmap."""
    return Relations(view, eligible).audit()


# --- equal conditions --------------------------------------------------------------------------------------------


def first_equal(table: SegmentArrays, slots: I64) -> I64:
    """For each slot, given by age, the oldest one with an equal condition (itself, if there is none older)."""
    hashes = _slot_hashes(table)[slots]
    order = np.argsort(hashes, kind="stable")  # stable: inside a hash, the oldest comes first
    leader = np.empty(len(slots), np.int64)
    find_leaders(table, slots[order], hashes[order], leader)
    first = np.empty(len(slots), np.int64)
    first[order] = leader
    return first


@kernel
def find_leaders(table: SegmentArrays, slots: I64, hashes: U64, leader: I64) -> None:
    """Slots by hash, then age: leader[i] is the first slot of the same hash that equals slots[i]."""
    begin = 0
    for i in range(len(slots)):
        if hashes[i] != hashes[begin]:
            begin = i
        leader[i] = slots[i]
        for j in range(begin, i):
            other = slots[j]
            if leader[j] != other:
                continue  # not the first of its kind
            if slot_contains(table, other, slots[i]) and slot_contains(table, slots[i], other):
                leader[i] = other
                break


def _slot_hashes(table: SegmentArrays) -> U64:
    """Equal conditions have equal hashes, whatever the order of their clauses."""
    return sums(mixed(sums(constraint_hashes(table), table.constraint_start)), table.clause_start)


def constraint_hashes(table: SegmentArrays) -> U64:
    """Equal constraints have equal hashes."""
    first = np.repeat(table.interval_start[:-1], np.diff(table.interval_start)).astype(np.uint64)
    place = np.arange(len(table.lo), dtype=np.uint64) - first
    intervals = mixed(mixed(table.lo.view(np.uint64) + place) ^ (table.hi.view(np.uint64) << np.uint64(1)))
    own = table.attr.astype(np.uint64) * np.uint64(2) + table.accepts_null
    return mixed(sums(intervals, table.interval_start) ^ mixed(own))


def sums(words: U64, start: I32) -> U64:
    """The sum of the words of each row, given where rows begin."""
    so_far = np.zeros(len(words) + 1, np.uint64)
    np.cumsum(words, out=so_far[1:])
    return so_far[start[1:]] - so_far[start[:-1]]


def mixed(words: U64) -> U64:
    """Each word's bits spread over all of it (the finalizer of splitmix64)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
