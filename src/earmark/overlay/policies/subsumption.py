"""Subsumption: what several others together ask for already is not told.

mics.txt, sections 3.7 and 5. Two ways:

**Projection** (`by="projection"`): conditions become ranges of a space that all brokers have, on some attributes, and
a range is told as far as it is not inside what was told (policies/ranges.py). A look-up decides, and brokers keep
nothing but ranges. What a space leaves out makes publications travel in vain, but never get lost.

**Subscription Indexing** (`by="indexing"`): conditions themselves are told, unless those told on the link before take
everything that they take; ranges only find the few that matter (cover/indexes/mics.py), and the decision is exact
(cover/exact.py). No publication travels in vain. No space is needed.

    told        x [0, 9]     x [10, 19]              new   x [5, 14]    subsumed by two: kept back
    withdrawn   x [0, 9]                                   x [5, 14]    overlaps it, and is needed now: told first

What is kept back is subsumed by what is *told*, never by something else that is kept back, so nothing relies on what no
neighbour knows. When something told goes, those kept back that overlap it are decided again, oldest first.

Under Projection, tables do not depend on the order in which subscriptions came; under Indexing they do: of two that
each take what the other takes, the first is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from earmark.cover.cover_index import CoverIndex
from earmark.cover.exact import WORK, Verdict
from earmark.errors import EarmarkError, SubscriptionError, check_whole, require
from earmark.overlay.policies import Entry, Policy, Statement, Tell, Untell
from earmark.overlay.policies.ranges import GapTable, RangePolicy, ToldRanges
from earmark.overlay.policies.rows import has_learned_times

WAYS = ("projection", "indexing")


def subsumption(by: str = "projection", **options: Any) -> Policy:
    """Subsumption in one of two ways, 'projection' or 'indexing'; the options are those of `Projecting`, `Indexing`."""
    if by not in WAYS:
        raise EarmarkError(f"expected {' or '.join(WAYS)} for by, got {by!r}")
    return Projecting(**options) if by == "projection" else Indexing(**options)


class Projecting(RangePolicy):
    """Ranges, as far as they are new."""

    name = "subsumption"

    def _table(self) -> ToldRanges:
        return GapTable()


class Indexing(Policy):
    """Conditions, unless what was told on the link takes everything that they take."""

    name = "subsumption"

    def __init__(self, index: str = "auto", work: int = WORK) -> None:
        """Choose the covering index that finds what overlaps, and a bound on the work of one decision.

        What cannot be decided within it is told.
        """
        check_whole(work, "work", 1)
        self._index, self._work = partial(CoverIndex, index), work
        self._links: dict[str, _Link] = {}

    def declare(self, attributes: Mapping[str, str], zone: str) -> Mapping[str, str]:
        """Read conditions with these types, in this zone."""
        self._index = partial(self._index, attributes=attributes, zone=zone)
        self._index()
        return attributes

    def open(self, link: str) -> None:
        """Begin a link."""
        self._links[link] = _Link(self._index(), self._index(), self._work)

    def close(self, link: str) -> None:
        """Forget a link."""
        del self._links[link]

    def change(self, link: str, added: Sequence[Entry], removed: Sequence[Entry]) -> list[Statement]:
        """Tell what is needed, then what the removed ones had made superfluous, then withdraw those."""
        one, statements = self._links[link], list[Statement]()
        for entry in added:
            statements += one.add(entry)
        return statements + one.remove(removed)

    def told(self, link: str) -> list[Statement]:
        """What is not kept back."""
        one = self._links[link]
        return [Tell(number, one.entries[number].condition) for number in sorted(one.entries) if one.is_told(number)]

    def status(self, link: str) -> dict[str, object]:
        """How many entries concern the link, and how many of them were told."""
        one = self._links[link]
        return {"entries": len(one.entries), "told": len(one.entries) - len(one.kept_back)}

    def check(self) -> None:
        """Raise AssertionError unless everything that is kept back is subsumed by what is told."""
        for name, link in self._links.items():
            for number in [*link.kept_back]:
                require(link.is_superfluous(link.entries[number]), f"entry {number} is missing on the link to {name}")
                link.forwarded.remove(number)


class _Link:
    """What concerns one link: told, or kept back."""

    def __init__(self, forwarded: CoverIndex, kept_back: CoverIndex, work: int) -> None:
        self.forwarded, self.kept_back, self.work = forwarded, kept_back, work
        self.entries: dict[int, Entry] = {}
        self.odd: set[int] = set()
        """Entries that brokers may read differently (rows.py): told, and in no index."""

    def is_told(self, number: int) -> bool:
        return number not in self.kept_back

    def is_superfluous(self, entry: Entry) -> bool:
        """Put an entry among those told; whether the others take all that it takes."""
        self.forwarded.add(entry.number, entry.condition)
        if has_learned_times(self.forwarded):
            self.forwarded.remove(entry.number)
            raise SubscriptionError("the condition compares an undeclared attribute with dates or timestamps")
        return self.forwarded.verdict(entry.number, self.work).verdict in (Verdict.COVERED, Verdict.SUBSUMED)

    def add(self, entry: Entry) -> list[Statement]:
        self.entries[entry.number] = entry
        try:
            superfluous = self.is_superfluous(entry)
        except SubscriptionError:
            self.odd.add(entry.number)
            return [Tell(entry.number, entry.condition)]
        if superfluous:
            try:
                self.kept_back.add(entry.number, entry.condition)
            except SubscriptionError:  # it contradicts the types of others that are kept back
                return [Tell(entry.number, entry.condition)]
            self.forwarded.remove(entry.number)
            return []
        return [Tell(entry.number, entry.condition)]

    def remove(self, entries: Sequence[Entry]) -> list[Statement]:
        going: list[Entry] = []
        for entry in entries:
            if entry.number in self.kept_back:
                self.kept_back.remove(entry.number)
                del self.entries[entry.number]
            else:
                going.append(entry)
        for entry in going:
            if entry.number in self.odd:
                self.odd.remove(entry.number)
            else:
                self.forwarded.remove(entry.number)
        uncovered: list[Statement] = []
        for number in self._meeting(going):
            entry = self.entries[number]
            try:
                superfluous = self.is_superfluous(entry)
            except SubscriptionError:
                self.odd.add(number)
                superfluous = False
            if superfluous:
                self.forwarded.remove(number)
            else:
                self.kept_back.remove(number)
                uncovered.append(Tell(number, entry.condition))
        for entry in going:
            del self.entries[entry.number]
        return uncovered + [Untell(entry.number) for entry in going]

    def _meeting(self, going: list[Entry]) -> list[int]:
        """What is kept back and may have relied on these, oldest first."""
        found: set[int] = set()
        for entry in going:
            if not len(self.kept_back):
                break
            try:
                self.kept_back.add(entry.number, entry.condition)
            except SubscriptionError:
                return sorted(int(number) for number in self.kept_back)
            found.update(int(number) for number in self.kept_back.meeting(entry.number))
            self.kept_back.remove(entry.number)
        return sorted(found)
