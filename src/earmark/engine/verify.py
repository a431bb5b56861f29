"""Does a search answer as a row-by-row evaluation of every subscription does? Fit for production: it only reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from earmark.engine.batch import Batch
from earmark.engine.searcher import Searcher
from earmark.flat import bits
from earmark.language.words import counted
from earmark.segment.evaluate import match_rows
from earmark.segment.ids import Id

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
        if self.ok:
            outcome = "no differences"
        else:
            first = "; ".join(f"event {d.event}: {d.id!r} {d.kind}" for d in self.differences[:_SHOWN])
            more = "; …" if len(self.differences) > _SHOWN else ""
            outcome = f"{counted(len(self.differences), 'difference')} ({first}{more})"
        return (
            f"<Verification: {counted(self.events, 'event')}, {counted(self.matches, 'match', 'matches')}, {outcome}>"
        )


def compare(searcher: Searcher, batch: Batch) -> Verification:
    """The answers of a searcher against the reference. O(events x subscriptions)."""
    differences: list[Difference] = []
    matches = 0
    for number, indexed in enumerate(searcher.version.segments):
        eligible = searcher.eligible(number)
        segment, events = indexed.segment, batch.for_segment(indexed.segment)
        starts, slots = indexed.match_many(events, eligible)
        matches += len(slots)
        out = np.empty(max(bits.count(eligible), 1), np.int32)
        for e in range(len(starts) - 1):
            got = slots[starts[e] : starts[e + 1]]
            found, _ = match_rows(segment.arrays, events, e, eligible, 0, out)
            wanted = out[:found]
            for kind, odd in (("missing", np.setdiff1d(wanted, got)), ("extra", np.setdiff1d(got, wanted))):
                differences.extend(Difference(e, one, kind) for one in segment.ids.named(odd.tolist()))
    return Verification(len(batch), matches, tuple(sorted(differences, key=lambda one: one.event)))
