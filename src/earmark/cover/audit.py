"""Rule hygiene: which subscriptions ask for the same, which are implied by others, which can never match?

    duplicates      conditions that take exactly the same events, however they are written
    covered         every event that matches it also matches another one, and not the other way round
    never           no event can match it
    never_clauses   an alternative of its OR that no event can match
    everything      every event matches it, the empty one too

A subscription is counted once: among those that never match, else among the duplicates of an older one, else among the
covered. For each covered one the report names one that covers it and that stays itself, so all redundant ones can be
removed together without leaving any event unmatched. Only conditions are compared, not scores, weights or tags.

What covering means, and what it leaves open across several clauses, is in `indexes/members.py`, and for users in
docs/hygiene.md.

Complexity: O(n log n) to find duplicates, then one covering query for each different condition (`blocks.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from earmark.cover.canonical import canonized, slot_contains
from earmark.cover.indexes.blocks import CoverBlocks
from earmark.flat import bits
from earmark.flat.arrays import I32, I64, U64, Flags
from earmark.jit import kernel
from earmark.language.words import counted
from earmark.notebook import html_table
from earmark.segment.arrays import SegmentArrays
from earmark.segment.explain import clause_texts
from earmark.segment.ids import Id
from earmark.segment.segment import Segment
from earmark.threads import cores

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 10
"""Findings of a kind that a report for people lists."""
COLUMNS = ("finding", "subscription", "other", "clause", "text")
"""Of the findings as a table."""


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
    """What an audit found, in order of insertion; `str()` is a report for people."""

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
        """Whether nothing was found; subscriptions that match everything do not count."""
        return not (self.duplicates or self.covered or self.never or self.never_clauses)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries, for JSON."""
        return {**asdict(self), "redundant": list(self.redundant)}

    def _findings(self) -> list[tuple[Any, ...]]:
        """One row per finding: (finding, subscription, other, clause, text)."""
        rows: list[tuple[Any, ...]] = [("duplicate", b, g[0], None, None) for g in self.duplicates for b in g[1:]]
        rows += [("covered", finding.id, finding.by, None, None) for finding in self.covered]
        rows += [("never", id, None, None, None) for id in self.never]
        rows += [("never clause", finding.id, None, finding.clause, finding.text) for finding in self.never_clauses]
        return rows + [("everything", id, None, None, None) for id in self.everything]

    def to_arrow(self) -> pa.Table:
        """One row per finding: (finding, subscription, other, clause, text); other is the one that covers it."""
        import pyarrow as pa

        rows = self._findings()
        kind = pa.int64() if rows and isinstance(rows[0][1], int) else pa.string()
        types = (pa.string(), kind, kind, pa.int32(), pa.string())
        columns = list(zip(*rows, strict=True)) or [()] * len(types)
        return pa.table({n: pa.array(c, t) for n, c, t in zip(COLUMNS, columns, types, strict=True)})

    def _repr_html_(self) -> str:
        findings = self._findings()
        return html_table(repr(self)[1:-1], COLUMNS, findings, len(findings))

    def report(self, shown: int = SHOWN) -> str:
        """The findings for people: counts, and the first `shown` of each kind."""
        lines = [f"{counted(self.subscriptions, 'subscription')}, {len(self.redundant):,} of them redundant"]
        duplicates, covered, never, clauses = (head for _, head in self._heads())
        everything = counted(len(self.everything), "matches everything", "match everything")
        kinds: list[tuple[str, tuple[Any, ...], Callable[[Any], str]]] = [
            (duplicates, self.duplicates, lambda group: f"{group[0]!r} = {', '.join(map(repr, group[1:]))}"),
            (f"{covered} by another", self.covered, lambda one: f"{one.id!r} is covered by {one.by!r}"),
            (never, self.never, repr),
            (clauses, self.never_clauses, lambda one: f"{one.id!r}, clause {one.clause}: {one.text}"),
            (everything, self.everything, repr),
        ]
        for head, found, text in kinds:
            lines += [f"  {head}", *(f"    {text(one)}" for one in found[:shown])] if found else []
            lines += [f"    … and {len(found) - shown:,} more"] if len(found) > shown else []
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        text = ", ".join(head for count, head in self._heads() if count) or "nothing found"
        return f"<Audit of {counted(self.subscriptions, 'subscription')}: {text}>"

    def _heads(self) -> list[tuple[int, str]]:
        """How many findings there are, by kind, and the same in words."""
        duplicates = sum(len(group) - 1 for group in self.duplicates)
        counts = duplicates, len(self.covered), len(self.never), len(self.never_clauses)
        words = ("duplicate", None), ("covered", "covered"), ("never matches", "never match")
        kinds = *words, ("clause never matches", "clauses never match")
        return [(count, counted(count, *kind)) for count, kind in zip(counts, kinds, strict=True)]


def audit(view: Segment, eligible: U64 | None = None) -> Audit:
    """Audit a segment's subscriptions, or those in a bitmap."""
    canonical, ids = canonized(view.arrays, view.schema), view.ids
    table = canonical.table
    slots = bits.to_slots(bits.all_set(len(view)) if eligible is None else eligible).astype(np.int64)
    slots = slots[np.argsort(table.sequence[slots], kind="stable")]
    empty = np.diff(table.clause_start)[slots] == 0
    matching = slots[~empty]
    first = first_equal(table, matching)
    free = np.flatnonzero(np.diff(table.constraint_start) == 0)
    everything = np.isin(matching, np.searchsorted(table.clause_start, free, "right") - 1)
    different = matching[first == matching]
    above = tops(table, different)
    below, above = different[above != different], above[above != different]
    pairs = zip(ids.named(below.tolist()), ids.named(above.tolist()), strict=True)
    return Audit(
        subscriptions=len(slots),
        duplicates=_duplicates(view, matching, first),
        covered=tuple(Covered(*pair) for pair in pairs),
        never=tuple(ids[slot] for slot in slots[empty].tolist()),
        never_clauses=_never_clauses(view, matching, canonical.never),
        everything=tuple(ids[slot] for slot in matching[everything].tolist()),
    )


def _duplicates(view: Segment, slots: I64, first: I64) -> tuple[tuple[Id, ...], ...]:
    """Groups of equal conditions, by the age of the oldest, given the oldest equal of each slot."""
    groups: dict[int, list[Id]] = {}
    for slot, leader in zip(slots[first != slots].tolist(), first[first != slots].tolist(), strict=True):
        groups.setdefault(leader, [view.ids[leader]]).append(view.ids[slot])
    leaders = sorted(groups, key=lambda slot: int(view.arrays.sequence[slot]))
    return tuple(tuple(groups[leader]) for leader in leaders)


def _never_clauses(view: Segment, slots: I64, never: Flags) -> tuple[NeverClause, ...]:
    """The clauses of these slots that no event can match, by the age of their subscriptions."""
    start, sequence = view.arrays.clause_start, view.arrays.sequence
    broken = np.flatnonzero(never)
    owner = np.searchsorted(start, broken, "right") - 1
    wanted = np.isin(owner, slots)
    found = []
    for clause, slot in zip(broken[wanted].tolist(), owner[wanted].tolist(), strict=True):
        number = clause - int(start[slot])
        text = " AND ".join(clause_texts(view, slot)[number].values())
        found.append((int(sequence[slot]), number, NeverClause(view.ids[slot], number + 1, text)))
    return tuple(clause for _, _, clause in sorted(found, key=lambda row: row[:2]))


def tops(table: SegmentArrays, slots: I64) -> I64:
    """For each slot one that covers it and that none covers: itself, if none does."""
    if not len(slots):
        return slots
    chosen = slots.astype(np.int32)
    pointers, above = CoverBlocks.build(table, np.sort(chosen)).covering_batch(chosen, 1, cores())
    up = np.arange(len(table.sequence), dtype=np.int64)
    up[chosen[np.diff(pointers) == 1]] = above
    while True:  # chains of covering become half as long each time
        further = up[up]
        if (further == up).all():
            return up[slots]
        up = further


# --- equal conditions --------------------------------------------------------------------------------------------


def first_equal(table: SegmentArrays, slots: I64) -> I64:
    """For each slot, given by age, the oldest one with an equal condition (itself, if there is none older)."""
    clauses = mixed(sums(constraint_hashes(table), table.constraint_start))
    hashes = sums(clauses, table.clause_start)[slots]  # equal conditions have equal ones, in any order of clauses
    order = np.argsort(hashes, kind="stable")  # stable: inside a hash, the oldest comes first
    first = np.empty(len(slots), np.int64)
    first[order] = leaders(table, slots[order], hashes[order])
    return first


@kernel
def leaders(table: SegmentArrays, slots: I64, hashes: U64) -> I64:
    """For each slot the first one of the same hash that equals it; slots come by hash, then age."""
    begin, leader = 0, slots.copy()
    for i in range(len(slots)):
        if hashes[i] != hashes[begin]:
            begin = i
        for j in range(begin, i):
            other = slots[j]
            if leader[j] != other:
                continue  # not the first of its kind
            if slot_contains(table, other, slots[i]) and slot_contains(table, slots[i], other):
                leader[i] = other
                break
    return leader


def constraint_hashes(table: SegmentArrays) -> U64:
    """Equal constraints have equal hashes."""
    first = np.repeat(table.interval_start[:-1], np.diff(table.interval_start)).astype(np.uint64)
    place = np.arange(len(table.lo), dtype=np.uint64) - first
    intervals = mixed(mixed(table.lo.view(np.uint64) + place) ^ (table.hi.view(np.uint64) << np.uint64(1)))
    own = table.attr.astype(np.uint64) * np.uint64(2) + table.accepts_null
    return mixed(sums(intervals, table.interval_start) ^ mixed(own))


def sums(words: U64, start: I32) -> U64:
    """The sum of the words of each row, given where rows begin."""
    so_far = np.append(np.uint64(0), np.cumsum(words))
    return so_far[start[1:]] - so_far[start[:-1]]


def mixed(words: U64) -> U64:
    """Spread each word's bits over all of it (the finalizer of splitmix64)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
