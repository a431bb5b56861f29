"""Does an index answer as a row-by-row evaluation of every subscription does? Fit for production: it only reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.types import U64
from earmark.index.contract import Index
from earmark.language.words import counted
from earmark.segment.evaluate import match_rows
from earmark.segment.table import Id, Table

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """A pair on which index and reference disagree: `missing` from the index's answer, or `extra` in it."""

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
        if self.ok:
            outcome = "no differences"
        else:
            first = "; ".join(f"event {d.event}: {d.id!r} {d.kind}" for d in self.differences[:_SHOWN])
            more = "; …" if len(self.differences) > _SHOWN else ""
            outcome = f"{counted(len(self.differences), 'difference')} ({first}{more})"
        return (
            f"<Verification: {counted(self.events, 'event')}, {counted(self.matches, 'match', 'matches')}, {outcome}>"
        )


def compare(index: Index, view: Table, events: EventArrays, eligible: U64) -> Verification:
    """The answers of an index against the reference. O(events x subscriptions)."""
    starts, slots = index.match_many(events, eligible)
    differences: list[Difference] = []
    out = np.empty(max(bits.count(eligible), 1), np.int32)
    for e in range(len(starts) - 1):
        got = slots[starts[e] : starts[e + 1]]
        found, _ = match_rows(view.arrays, events, e, eligible, 0, out)
        wanted = out[:found]
        for kind, odd in (("missing", np.setdiff1d(wanted, got)), ("extra", np.setdiff1d(got, wanted))):
            differences.extend(Difference(e, view.ids[slot], kind) for slot in odd.tolist())
    return Verification(len(starts) - 1, len(slots), tuple(differences))
