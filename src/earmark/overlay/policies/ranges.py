"""What policies of ranges share: what each neighbour asks for, and what each link is told, in one space.

mics.txt, sections 3 and 4. Local subscriptions become ranges of the curve of a space that all brokers have
(`overlay/space.py`); from then on brokers speak of ranges alone, and look the number of an event up in them:

    per incoming link    a set: what the neighbour asks for                 asked["A"]   [10, 20]
                                                                            asked["B"]   [15, 30]
    for all links        how many neighbours ask for a number, and who      askers       10–14: A   15–20: both
                         if it is one of them                                            21–30: B
    per outgoing link    what any other neighbour asks for, and what        wanted "A"   [15, 30]
                         local subscriptions do, which are counted one      wanted "C"   [10, 30]
                         by one; and what is told because of it

Messages change a set; only what really changes in the set goes to the askers, and only what that changes for a link
concerns it. What really changes in what is wanted is told, with the gaps that close. So equal ranges from two links
survive the withdrawal of one, whatever repeats is ignored, and nothing is told twice. What is new is told before what
is withdrawn.

**Batches.** `want_ranges` notes what neighbours say; `pass_on` follows all of it at once, so that each table changes
once. Of what a neighbour has asked for and taken back in between, nobody hears.

**Telling again.** After `restart_ranges` a neighbour's old ranges serve on, while what it tells is put into a second
set; what is not in that one goes in `settle_ranges`.

**Another space.** A neighbour that has changed its space before we have (its Resynchronise names another one) is
*foreign*: its ranges mean nothing here, so it counts as asking for everything until it is in our space. When it comes
into our space it could not understand what we said before, so it is told everything again. `rekey` changes ours.

Invariant (`check`): what is wanted on a link is the ranges of its live entries, and what any other neighbour asks for;
what is told is all of that, and the gaps that the policy closes.
Complexity: O(log n) per range, and as much for each link for which it changes something.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import Any, Protocol

import numpy as np

from earmark.cover.ranges.askers import Askers
from earmark.cover.ranges.projection import meet
from earmark.cover.ranges.table import NO_NUMBERS, Ranges, RangeSet, RangeTable, as_ranges, balance, joined
from earmark.errors import EarmarkError, check_whole, require
from earmark.flat.arrays import I64, Flags, pointers_of
from earmark.overlay.policies import Again, Entry, Policy, PolicyError, Statement, TellRanges, UntellRanges
from earmark.overlay.policies import Ranges as Pairs
from earmark.overlay.space import MOST_RANGES, Grid, Space

AT_ONCE = 1 << 14
"""Ranges in one statement: as a message, well below MOST_BYTES."""
MOST_ASKED = 10_000_000
"""Ranges that one neighbour may ask for, beside those of an older channel."""
NOTHING = Ranges(NO_NUMBERS, NO_NUMBERS)


class ToldRanges(Protocol):
    """What a link is told of what is wanted there."""

    def ranges(self, wanted: Ranges) -> Ranges:
        """What is told, ascending, given what is wanted."""

    def change(self, added: Ranges, removed: Ranges) -> tuple[Ranges, Ranges]:
        """Follow what is wanted now and was not, and what was and is not; returns what to tell and to withdraw."""

    def check(self) -> None:
        """Raise AssertionError unless its invariant holds."""


class AsWanted:
    """What is wanted is told."""

    def ranges(self, wanted: Ranges) -> Ranges:
        """All that is wanted."""
        return wanted

    def change(self, added: Ranges, removed: Ranges) -> tuple[Ranges, Ranges]:
        """What is added and removed."""
        return added, removed

    def check(self) -> None:
        """Nothing is kept."""


class WithGaps:
    """Ranges that are at most `gap` numbers apart are told as one, the gap with them."""

    def __init__(self, gap: int) -> None:
        self._gap, self._wanted, self._told = gap, RangeSet(), RangeSet()

    def ranges(self, wanted: Ranges) -> Ranges:
        """What has been told."""
        return self._told.ranges()

    def change(self, added: Ranges, removed: Ranges) -> tuple[Ranges, Ranges]:
        """Tell what is added, with gaps that it closes, then withdraw what is claimed in vain: see `ToldRanges`."""
        self._wanted.put_in(added)
        self._wanted.take_out(removed)
        return self._told.put_in(added, self._gap), self._told.retreat(self._wanted, removed, self._gap)

    def check(self) -> None:
        """Raise AssertionError unless what is told is what is wanted, with gaps closed."""
        self._wanted.check()
        self._told.check()
        require(bool(joined(self._wanted.ranges(), self._gap).pairs() == self._told.ranges().pairs()), "a gap is wrong")


class RangePolicy(Policy):
    """Ranges of a space, told as far as a table of each link says."""

    def __init__(self, space: Space | Mapping[str, Any] | None = None, most: int = MOST_RANGES) -> None:
        """Take a space, the same in all brokers. `most`: ranges of a clause, beyond which it has larger cells."""
        if space is None:
            raise EarmarkError(f"the policy {self.name!r} needs a space, such as Space.even({{'price': (0, 1000)}})")
        check_whole(most, "most", 1, 1 << 16)
        self._most = most
        self._declared: dict[str, str] = {}
        self._grid = Grid(Space.from_record(space) if not isinstance(space, Space) else space)
        self.space = self._grid.number
        self._entries: dict[int, tuple[Entry, Ranges]] = {}
        self._links: dict[str, ToldRanges] = {}
        self._local: dict[str, RangeTable] = {}
        """By link, the ranges of the entries that concern it."""
        self._members: dict[str, set[int]] = {}
        """By link, the entries that concern it."""
        self._asked: dict[str, RangeSet] = {}
        self._askers, self._codes = Askers(), dict[str, int]()
        """By neighbour, the number by which the askers know it."""
        self._heard: dict[str, list[tuple[bool, Pairs]]] = {}
        """By neighbour, ranges that it wants from now on (True) or no longer, in order, until `pass_on`;"""
        self._heard_in_all: dict[str, int] = {}
        """and how many these are."""
        self._again: dict[str, RangeSet] = {}
        """What neighbours have told since they began to tell everything again."""
        self._foreign: set[str] = set()

    @abstractmethod
    def _table(self) -> ToldRanges:
        """What a link is told, while nothing is wanted."""

    def _moved(self) -> None:
        """Follow a change of the space."""

    def declare(self, attributes: Mapping[str, str], zone: str) -> Mapping[str, str]:
        """The types of a broker's attributes and of the axes, which must agree."""
        if zone != self._grid.space.zone:
            raise EarmarkError(f"expected the zone of the space, {self._grid.space.zone!r}, got {zone!r}")
        self._declared = {**self._grid.space.types, **attributes}
        self._check_types(self._grid.space)
        return self._declared

    def _check_types(self, space: Space) -> None:
        for name, type_ in space.types.items():
            known = self._declared.get(name)
            if known is not None and known != type_:
                raise EarmarkError(f"{name!r} is declared as {known}, and {type_} in the space")

    # --- links ---------------------------------------------------------------------------------------------------

    def open(self, link: str) -> None:
        """Begin a link; it needs to know what all others ask for."""
        if link not in self._asked:
            used = {*self._codes.values()}
            self._codes[link] = next(code for code in count() if code not in used)
            self._asked[link] = RangeSet()
        self._members[link], self._local[link] = set(), RangeTable()
        self._links[link] = self._filled(link)

    def close(self, link: str) -> None:
        """Forget a link; what it asks for goes with `settle_ranges`."""
        del self._links[link], self._members[link], self._local[link]
        self._foreign.discard(link)
        self._again[link] = RangeSet()

    def change(self, link: str, added: Sequence[Entry], removed: Sequence[Entry]) -> list[Statement]:
        """Tell the ranges of entries as far as they are new, then withdraw those that nobody needs."""
        members = self._members[link]
        members.update(entry.number for entry in added)
        members.difference_update(entry.number for entry in removed)
        new, old = (_together([self._entries[entry.number][1] for entry in entries]) for entries in (added, removed))
        local, code = self._local[link], self._codes[link]
        came, went = balance(local.take_in(new)[0], local.release(old))
        return self._said(*self._links[link].change(self._askers.unasked(code, came), self._askers.unasked(code, went)))

    def told(self, link: str) -> list[Statement]:
        """All that is wanted on a link, with the gaps that are closed."""
        return self._said(self._told_ranges(link), NOTHING)

    def _told_ranges(self, link: str) -> Ranges:
        return self._links[link].ranges(self._wanted(link))

    def _wanted(self, link: str) -> Ranges:
        """What any other neighbour asks for, and what the entries of a link do."""
        return as_ranges(_together([self._askers.beside(self._codes[link]), self._local[link].ranges()]))

    def _said(self, told: Ranges, withdrawn: Ranges) -> list[Statement]:
        said: list[Statement] = [TellRanges(self.space, part) for part in _parts(told)]
        return said + [UntellRanges(self.space, part) for part in _parts(withdrawn)]

    def learn(self, entries: Sequence[Entry]) -> None:
        """Convert conditions to ranges."""
        found = self._grid.ranges([entry.condition for entry in entries], self._most) if entries else []
        self._entries.update((entry.number, (entry, one)) for entry, one in zip(entries, found, strict=True))

    def unlearn(self, entries: Sequence[Entry]) -> None:
        """Forget the ranges of entries."""
        for entry in entries:
            del self._entries[entry.number]

    # --- neighbours ----------------------------------------------------------------------------------------------

    def check_ranges(self, source: str, wanted: bool, space: int, ranges: Pairs) -> None:
        """Refuse ranges of another space, numbers beyond the curve, and more ranges than a neighbour may ask for."""
        if source in self._foreign:
            return
        if space != self.space:
            raise PolicyError(f"expected ranges of the space {self.space}, got some of {space}")
        if ranges and ranges[-1][1] > self._grid.last:
            raise PolicyError(f"expected numbers from 0 to {self._grid.last}, got {ranges[-1][1]}")
        asked, more = self._asked[source], len(ranges) + self._heard_in_all.get(source, 0)
        most = MOST_ASKED if wanted else 2 * MOST_ASKED  # what is taken back may leave holes
        if len(self._again.get(source, asked)) + more > most or len(asked) + more > 3 * MOST_ASKED:
            raise PolicyError(f"expected at most {MOST_ASKED:,} ranges from one neighbour")

    def want_ranges(self, source: str, wanted: bool, ranges: Pairs) -> None:
        """Note ranges that a neighbour wants from now on, or no longer."""
        self._heard.setdefault(source, []).append((wanted, ranges))
        self._heard_in_all[source] = self._heard_in_all.get(source, 0) + len(ranges)

    def pass_on(self) -> list[tuple[str, Statement]]:
        """Follow what neighbours have said since the last call; returns what to tell which links.

        As long as a neighbour tells everything again, nothing goes of what it asked for before, even if it takes back
        what it has told since: it may have started again, and not know yet who else asks for it.
        """
        if not self._heard:
            return []
        heard, self._heard, self._heard_in_all = self._heard, {}, {}
        changes = []
        for source, turns in heard.items():
            if source in self._foreign:
                continue
            again = self._again.get(source)
            if again is not None:
                again.follow(*_turns(turns))
                turns = [turn for turn in turns if turn[0]]
            if turns:
                changes.append((source, *self._asked[source].follow(*_turns(turns))))
        return self._passed_on(changes)

    def _passed_on(self, changes: Sequence[tuple[str, Ranges, Ranges]]) -> list[tuple[str, Statement]]:
        """What to tell, given what has come to the sets of neighbours, and what has gone."""
        by_source = [
            (source, self._askers.add(self._codes[source], new), self._askers.discard(self._codes[source], old))
            for source, new, old in changes
        ]
        said: list[tuple[str, Statement]] = []
        for link, table in self._links.items():
            others, code = [(new, old) for source, new, old in by_source if source != link], self._codes[link]
            new, old = _together([new.of(code) for new, _ in others]), _together([old.of(code) for _, old in others])
            if new or old:
                came, went = (self._local[link].outside(ranges) for ranges in balance(new, old))
                said += [(link, one) for one in self._said(*table.change(came, went))]
        return said

    def restart_ranges(self, source: str, space: int) -> list[tuple[str, Statement]]:
        """A neighbour tells everything again, in a space: see above."""
        self._again[source] = RangeSet()
        if space != self.space:
            self._foreign.add(source)
            self._again[source].add([(0, self._grid.last)])
            return self._passed_on([(source, self._asked[source].add([(0, self._grid.last)]), NOTHING)])
        if source in self._foreign:
            self._foreign.remove(source)
            return [(source, Again(self.space))]
        return []

    def settle_ranges(self, source: str) -> list[tuple[str, Statement]]:
        """A neighbour has told everything: what it has not told again goes."""
        again = self._again.pop(source, None)
        if again is None:
            return []
        gone = self._asked[source].discard(_complement(again.ranges(), self._grid.last))
        said = self._passed_on([(source, NOTHING, gone)])
        if source not in self._links:
            del self._asked[source], self._codes[source]
        return said

    def wanting(self, events: Sequence[Mapping[str, Any]]) -> list[set[str]]:
        """For each event, the neighbours that ask for its number."""
        wanted: list[set[str]] = [set() for _ in events]
        asked = [(name, ranges) for name, ranges in self._asked.items() if len(ranges)]
        if not asked:
            return wanted
        start, first, last = self._grid.numbers(events)
        for name, ranges in asked:
            for place in np.flatnonzero(meet(ranges._merged, start, first, last)).tolist():
                wanted[place].add(name)
        return wanted

    # --- changes of the space --------------------------------------------------------------------------------------

    def rekey(self, space: Space | Mapping[str, Any]) -> list[tuple[str, Statement]]:
        """Use another space from now on, and tell everything again in it; returns what to tell which links.

        Until neighbours have told everything again in this space too, they count as asking for everything.
        """
        grid = Grid(Space.from_record(space) if not isinstance(space, Space) else space)
        self._check_types(grid.space)
        unknown = sorted(grid.space.types.keys() - self._declared.keys())
        if unknown or grid.space.zone != self._grid.space.zone:
            what = f"type of {unknown[0]!r}" if unknown else "zone"
            raise EarmarkError(f"the {what} in the new space was not declared when the broker was made")
        if grid.number == self.space:
            return []
        self._grid, self.space = grid, grid.number
        self._moved()
        entries = [entry for entry, _ in self._entries.values()]
        self._entries = {}
        self.learn(entries)
        self._askers = Askers()
        for source in self._asked:
            self._asked[source] = RangeSet([(0, grid.last)])
            self._askers.add(self._codes[source], self._asked[source].ranges())
            self._foreign.add(source)
        self._again = {source: RangeSet([(0, grid.last)]) for source in self._again}
        for link, members in self._members.items():
            self._local[link] = RangeTable()
            self._local[link].take_in(_together([self._entries[number][1] for number in sorted(members)]))
            self._links[link] = self._filled(link)
        return [(link, Again(self.space)) for link in self._links]

    # --- looking ---------------------------------------------------------------------------------------------------

    def status(self, link: str) -> dict[str, object]:
        """How many entries concern the link, how many ranges it was told, and how many its neighbour asks for."""
        return {
            "entries": len(self._members[link]),
            "told": len(self._told_ranges(link).first),
            "wants": len(self._asked[link]),
            "foreign": link in self._foreign,
        }

    def _filled(self, link: str) -> ToldRanges:
        """What a link is told, made again from what is wanted."""
        table = self._table()
        table.change(self._wanted(link), NOTHING)
        return table

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds."""
        self._askers.check()
        for link, table in self._links.items():
            table.check()
            self._local[link].check()
            others, own = RangeSet(), RangeSet()
            for source, asked in self._asked.items():
                asked.check()
                if source != link:
                    others.add(asked.ranges())
            for number in self._members[link]:
                own.add(self._entries[number][1])
            beside = self._askers.beside(self._codes[link])
            require(others.ranges().pairs() == beside.pairs(), f"the askers beside {link} are not those who ask")
            require(own.ranges().pairs() == self._local[link].ranges().pairs(), f"entries of {link} are miscounted")
            again = self._filled(link).ranges(self._wanted(link))
            require(again.pairs() == self._told_ranges(link).pairs(), f"{link} is not told what others ask for")


def _turns(said: Sequence[tuple[bool, Pairs]]) -> tuple[I64, Ranges, Flags]:
    """What a neighbour has said as arrays, for `RangeSet.follow`."""
    numbers = np.fromiter(chain.from_iterable(chain.from_iterable(pairs for _, pairs in said)), np.int64)
    ranges = Ranges(np.ascontiguousarray(numbers[::2]), np.ascontiguousarray(numbers[1::2]))
    return pointers_of([len(pairs) for _, pairs in said]), ranges, np.array([wanted for wanted, _ in said], np.bool_)


def _together(several: list[Ranges]) -> Ranges:
    """Ranges of several in one pair of arrays, one after another."""
    if len(several) == 1:
        return several[0]
    return Ranges(*(np.concatenate([NO_NUMBERS, *(one[end] for one in several)]) for end in (0, 1)))


def _parts(ranges: Ranges) -> list[Pairs]:
    """Ranges as pairs, at most AT_ONCE together."""
    pairs = ranges.pairs()
    return [tuple(pairs[first : first + AT_ONCE]) for first in range(0, len(pairs), AT_ONCE)]


def _complement(ranges: Ranges, last: int) -> Ranges:
    """The numbers up to the last that are in none of these ranges."""
    first, end = np.concatenate([[0], ranges.last + 1]), np.concatenate([ranges.first - 1, [last]])
    some = first <= end
    return Ranges(first[some], end[some])
