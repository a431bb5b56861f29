"""One covering index for all entries of a broker, seen by each link as if it had one of its own.

An entry concerns every link but its source, so an index per link would hold each entry nearly as often as there are
links. Here it is bound and indexed once, and a link looks only at the entries that concern it:

    shared index        7 (from A)   8 (from B)   9 (local)          covering(9) = {7, 8}
    link to A                        8            9                  covering(9) = {8}
    link to B           7                         9                  covering(9) = {7}

**Types.** Brokers agree about a condition only if all of them read it alike. They read a string that is compared with a
declared date or timestamp as a time; where the type is not declared, some have learned it and others have not. So an
entry that compares an undeclared attribute with dates or timestamps is set apart, as is one that contradicts the types
of others: it covers nothing, and nothing covers it.

A question is asked of the shared index for FIRST answers; where too few of them concern the link and there may be more,
for four times as many, and so on. The answers of a batch of new entries are found together (`learn`).

Invariant: `Rows` has every entry that was learned and not unlearned, those of `odd` apart; each link's `members` are
among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from earmark.cover.cover_index import CoverIndex
from earmark.cover.indexes.members import SUBSCRIBE
from earmark.errors import SubscriptionError
from earmark.keys.schema import Kind
from earmark.overlay.policies import Entry

FIRST = 3
"""Answers that are asked for at first: with two sources among them, one suits any link."""


TIMES = (Kind.DATE, Kind.TIMESTAMP)


def has_learned_times(index: CoverIndex) -> bool:
    """Whether an undeclared attribute is compared with dates or timestamps. O(attributes)."""
    return any(one.type is not None and one.type.kind in TIMES and not one.declared for one in index.schema)


class Bound:
    """Entries in a covering index, but for those that brokers may read differently."""

    def __init__(self, index: str, attributes: Mapping[str, str], zone: str) -> None:
        """Make an empty table; `index` names a covering index, `attributes` and `zone` are the broker's."""
        self.index = CoverIndex(index, attributes, zone)
        self.odd: set[int] = set()
        """Entries that are set apart."""

    def learn(self, entries: Sequence[Entry]) -> None:
        """Add entries."""
        rows = [(entry.number, entry.condition) for entry in entries]
        if len(rows) < 2 or not self._adds(rows):
            self.odd.update(row[0] for row in rows if not self._adds([row]))

    def _adds(self, rows: list[tuple[int, str]]) -> bool:
        """Add all of these entries, or none and return False."""
        before = self.index.schema
        try:
            self.index.add_many(rows)
        except SubscriptionError:
            return False
        if self.index.schema is before or not has_learned_times(self.index):
            return True
        self.index.remove_many([number for number, _ in rows])
        return False

    def unlearn(self, entries: Sequence[Entry]) -> None:
        """Remove entries."""
        numbers = [entry.number for entry in entries]
        self.index.remove_many([number for number in numbers if number not in self.odd])
        self.odd.difference_update(numbers)


class Rows(Bound):
    """All entries of a broker, bound and indexed once."""

    def __init__(self, index: str, attributes: Mapping[str, str], zone: str) -> None:
        super().__init__(index, attributes, zone)
        self._answers: dict[int, dict[int, list[int]]] = {}
        """By k, answers since the entries last changed: links ask about the same ones, one after the other."""

    def learn(self, entries: Sequence[Entry]) -> None:
        """Add entries, and find what covers them."""
        self._answers = {}
        super().learn(entries)
        numbers = [entry.number for entry in entries if entry.number not in self.odd]
        if len(numbers) > 1:
            self.covering(numbers, FIRST)

    def unlearn(self, entries: Sequence[Entry]) -> None:
        """Remove entries."""
        self._answers = {}
        super().unlearn(entries)

    def covering(self, numbers: Sequence[int], k: int) -> list[list[int]]:
        """Up to k entries that cover each of these."""
        answers = self._answers.setdefault(k, {})
        unknown = [number for number in numbers if number not in answers]
        if unknown:
            answers.update(zip(unknown, self.index.covering_many(unknown, k), strict=True))  # type: ignore[arg-type]
        return [answers[number] for number in numbers]


class LinkIndex:
    """The entries that concern one link."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.members: set[int] = set()

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[int]:
        return iter(self.members)

    def add(self, number: int, condition: object) -> None:
        """Let an entry that was learned concern the link."""
        self.members.add(number)

    def add_many(self, entries: Sequence[tuple[int, object]]) -> None:
        """Let entries that were learned concern the link."""
        self.members.update(number for number, _ in entries)

    def remove(self, number: int) -> None:
        """Let an entry concern the link no longer."""
        self.members.remove(number)

    def covering(self, number: int, k: int | None = None, phase: int = SUBSCRIBE) -> list[int]:
        """Up to k members that cover an entry, all without k."""
        return self.covering_many([number], len(self.members) if k is None else k)[0]

    def covering_many(self, numbers: Sequence[int], k: int) -> list[list[int]]:
        """Up to k members that cover each of these entries."""
        members, answers, asked, open_ = self.members, dict[int, list[int]](), FIRST, numbers
        while open_:
            unsure = []
            for number, found in zip(open_, self._rows.covering(open_, asked), strict=True):
                mine = [other for other in found if other in members] if found else found
                if len(mine) < k and len(found) == asked:
                    unsure.append(number)
                else:
                    answers[number] = mine[:k] if len(mine) > k else mine
            open_, asked = unsure, 4 * asked
        return [answers[number] for number in numbers]

    def covered(self, number: int, k: int | None = None) -> list[int]:
        """Up to k members that an entry covers, all without k. O(entries)."""
        mine = [other for other in self._rows.index.covered(number) if other in self.members]
        return mine if k is None else mine[:k]

    def covers(self, above: int, below: int) -> bool:
        """Whether one entry covers another."""
        return self._rows.index.covers(above, below)

    def check(self) -> None:
        """Raise AssertionError unless the members are entries that were learned."""
        assert all(number in self._rows.index for number in self.members), "a member was never learned"
