"""Which intervals does a value stab, the best few: look it up.

Beyond the paper, for sets that do not change. The endpoints of n intervals cut the keys into at most 2n cells, and all
values of a cell stab the same intervals; so the best K of each cell are stored, and a search is one look-up. Building
*paints* the intervals in descending score: an interval is added to every cell that it covers and that is not yet full;
full cells are skipped together by a union-find, so that painting takes O(cells x K), not O(cells x intervals).

    1 [30,55]  2 [75,90]  3 [45,55]  4 [65,90]     K = 2

    cells     30..44    45..55    56..64    65..74    75..90
    best      1         1 3                 4         2 4          (numbers = ranks)

The cell of a value is found by a table of the leading bits of its distance from the first cut, which leads to the few
cuts between which a binary search ends.

A look-up answers exact searches for at most K of an event that has one attribute with a list, where each subscription
has that one interval alone. All other searches (more attributes, intervals as events, event weights, further
constraints, too few eligible slots in a cell) are those of the SOPT-R-tree that it contains.

Invariant: a cell has the min(K, all) best intervals that cover it, in order.
Complexity: O(n log n + cells x K) build, 4 K bytes per cell; a look-up O(log of the cuts that share their leading bits
+ k).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

import earmark.index.ranked.arrays as sc
from earmark.errors import EarmarkError, require
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.flat import bits
from earmark.flat.arrays import F64, I32, I64, U64, pointers_of
from earmark.flat.bisection import bisect_right
from earmark.flat.machine import at
from earmark.index.contract import Floor
from earmark.index.counters import CANDIDATES, MATCHED
from earmark.index.counters import NODES as NODES_SEEN
from earmark.index.kernels import Asked, lives_at
from earmark.index.marks import is_set
from earmark.index.ranked.arrays import ScoredArrays, int64
from earmark.index.ranked.base import ScoredOptions
from earmark.index.ranked.check import list_entries
from earmark.index.ranked.lists import ScoredLists
from earmark.index.ranked.sopt_r_tree import SoptRTree, cells
from earmark.index.ranked.walk import list_for
from earmark.index.ranking import without_gaps
from earmark.index.stored import element_types
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import NO_LIFE

# Fields of `cell_list`, one row per list; the first row is (K, 0, ..).
CUTS_BEGIN, CUTS_END, FIRST_KEY, SHIFT, RADIX_BEGIN, RADIX_LAST, CELLS_BEGIN, RANKS_BEGIN = range(8)
CELLS = 8
MOST = 256
"""The greatest K."""
SIGN = np.uint64(1 << 63)
"""Maps signed keys to unsigned ones in the same order, whose differences do not overflow."""
# Fields of an answer: score and slot side by side, so that both come with one cache line. A slot is exact as a float.
WORTH, OF = range(2)
ANSWER = 2
NOT_HERE = -1
"""In place of a number of answers or a cell: this event is for the SOPT-R-tree."""
NOTHING = -2
"""In place of a cell: the event stabs nothing."""
GROUP = 32
"""Events whose cells are found together."""


class CellTable(SoptRTree):
    """The best K of every cell, and a SOPT-R-tree for what they do not answer."""

    @classmethod
    def build(  # type: ignore[override]
        cls, table: SegmentArrays, best: int = 20, branching: int = 16, modes: str = "both", intersect: bool = False
    ) -> Self:
        """Build an index of all slots of a table; `best` is K, 1 to 256; for the rest see `ScoredOptions`."""
        if not 1 <= best <= MOST:
            raise EarmarkError(f"expected best from 1 to {MOST}, got {best}")
        return cls._built(table, ScoredOptions(branching, 0, modes, intersect, sc.FOREST, sc.POINTS, best))

    @staticmethod
    def _further_kernels() -> tuple[Any, ...]:
        return paint, look_up

    @classmethod
    def _grow(cls, lists: ScoredLists, arrays: ScoredArrays, options: ScoredOptions) -> ScoredArrays:
        grown = super()._grow(lists, arrays, options)
        return grown._replace(**_painted(lists, arrays, options.best))

    @classmethod
    def _check_arrays(cls, arrays: ScoredArrays, table: SegmentArrays) -> None:
        super()._check_arrays(arrays, table)
        _check_cells(arrays, len(table.sequence))

    def check(self) -> None:
        """Also raise AssertionError unless the cells hold the best intervals over them."""
        super().check()
        arrays = self._arrays
        _check_cells(arrays, len(self._table.sequence))
        rows = arrays.cell_list.reshape(-1, CELLS)
        best = int(rows[0, 0])
        for which, row in enumerate(rows[1:]):
            if row[CUTS_END] == row[CUTS_BEGIN]:
                continue
            entries = list_entries(arrays, which)
            sequence = self._table.sequence[arrays.ref[entries]]
            entries = entries[np.lexsort((np.arange(len(entries)), sequence, -arrays.score[entries]))]
            span = slice(int(row[RANKS_BEGIN]), int(row[RANKS_BEGIN]) + len(entries))
            answer = arrays.cell_answer.reshape(-1, ANSWER)[span]
            require(np.array_equal(answer[:, OF], arrays.ref[entries]), "the ranks are not those of the list")
            require(np.array_equal(answer[:, WORTH], arrays.score[entries]), "the scores are not those of the list")
            painted = arrays.cell[int(row[CELLS_BEGIN]) :].reshape(-1, best)
            keys = arrays.cell_cut[row[CUTS_BEGIN] : row[CUTS_END]]
            for cell in range(0, len(keys), max(1, len(keys) // 200)):
                over = np.flatnonzero((arrays.lo[entries] <= keys[cell]) & (keys[cell] <= arrays.hi[entries]))[:best]
                held = painted[cell][painted[cell] != sc.EMPTY]
                require(np.array_equal(held, over), "a cell does not hold the best intervals over it")

    def _hold(self, table: SegmentArrays, arrays: ScoredArrays) -> None:
        super()._hold(table, arrays)
        info, is_counted = self._arrays.info, len(self._arrays.needed) > 0
        self._cells = Cells._make(getattr(self._arrays, name) for name in Cells._fields)
        self._looks_up = bool(info[sc.EXACT] and info[sc.ONE_CLAUSE] and not info[sc.LOOSE] and not is_counted)

    def _rank_group(self, asked: Asked, floor: Floor | None, kernel: Any) -> tuple[I64, I32, F64, I64]:
        """Look up the events for which that is possible, and leave the others to the SOPT-R-tree."""
        k = asked.k
        exact = not asked.relaxed or self._arrays.info[sc.REGIME] == sc.SHARED
        weights = asked.events.weight
        unweighted = not len(weights) or bool((weights == 1.0).all())
        if not self._looks_up or not exact or not unweighted or k > self._arrays.cell_list[0]:
            return super()._rank_group(asked, floor, kernel)
        lanes = asked.last - asked.first
        answers = CellAnswers(np.zeros(lanes, np.int64), np.empty(lanes * k, np.int32), np.empty(lanes * k))
        counters = np.zeros(self._counters, np.int64)
        everyone = _all_of(asked.eligible, len(self._table.sequence))
        left = look_up(self._cells, self._table, asked, everyone, answers, counters)
        if left == lanes:
            return super()._rank_group(asked, floor, kernel)
        if left:
            chosen = np.flatnonzero(answers.size == NOT_HERE)
            others = asked._replace(events=some_events(asked.events, chosen + asked.first), first=0, last=left)
            counts, slots, scores, more = super()._rank_group(others, None, kernel)
            answers.size[chosen] = counts
            where = np.arange(len(slots)) + np.repeat(chosen * k - pointers_of(counts)[:-1], counts)
            answers.slot[where], answers.score[where] = slots, scores
            counters += more
        if floor is not None:
            _cut(answers, k, self._table.sequence, floor, asked.first)
        return *without_gaps(k, *answers), counters


class Cells(NamedTuple):
    """What a look-up reads."""

    list_of: I32
    lists: I64
    cell_list: I64
    cell: I32
    cell_cut: I64
    cell_radix: I32
    cell_answer: F64


def _painted(lists: ScoredLists, arrays: ScoredArrays, best: int) -> dict[str, np.ndarray]:
    """Paint the cells of all lists that can be looked up."""
    rows = np.zeros((len(lists.attr) + 1, CELLS), np.int64)
    rows[0, 0] = best
    kinds, parts = element_types(ScoredArrays), ("cell", "cell_cut", "cell_radix", "cell_answer")
    made: dict[str, list[Any]] = {name: [np.empty(0, kinds[name])] for name in parts}
    counts = np.zeros(4, np.int64)  # cells x K, cuts, radix entries, ranks so far
    for number in np.flatnonzero(arrays.lists.reshape(-1, sc.LIST)[:, sc.SOLE]).tolist():
        entries = lists.entries(number)
        cut, first, last = cells(entries.lo, entries.hi)
        table = paint(first, last, best, len(cut))
        skip = int(cut[0] == np.iinfo(np.int64).min and len(cut) > 1)  # no lower bound: too far off to count from
        span = int(cut[-1]) - int(cut[skip])
        shift = max(0, span.bit_length() - max(1, len(cut).bit_length()))
        size = (span >> shift) + 1
        ahead = (cut[skip:].view(np.uint64) - cut[skip : skip + 1].view(np.uint64)) >> np.uint64(shift)
        edges = skip + np.searchsorted(ahead, np.arange(size + 1, dtype=np.uint64))
        cells_begin, begin, radix, ranks = counts.tolist()
        rows[number + 1] = begin, begin + len(cut), cut[skip], shift, radix, size - 1, cells_begin, ranks
        answers = np.column_stack([entries.score, entries.slot]).ravel()
        for name, part in zip(parts, (table, cut, edges.astype(np.int32), answers), strict=True):
            made[name].append(part)
        counts += len(table), len(cut), size + 1, len(entries.lo)
    return {"cell_list": rows.ravel()} | {name: np.concatenate(several) for name, several in made.items()}


def _check_cells(arrays: ScoredArrays, slots: int) -> None:
    """Raise AssertionError unless look-ups stay inside the arrays."""
    rows = arrays.cell_list.reshape(-1, CELLS)
    lists = len(arrays.lists) // sc.LIST
    require(len(rows) == lists + 1 and 1 <= rows[0, 0] <= MOST, "the cells are not those of the lists")
    require(len(arrays.cell_answer) % ANSWER == 0, "an answer is cut off")
    named = arrays.cell_answer[OF::ANSWER]
    inside = not len(named) or bool((named == np.rint(named)).all() and named.min() >= 0 and named.max() < slots)
    require(inside, "a rank refers to a slot that the table does not have")
    for row in rows[1:]:
        begin, end, first, shift, radix, top, base, ranks = (int(value) for value in row)
        if begin == end:
            continue
        require(0 <= begin < end <= len(arrays.cell_cut) and 0 <= shift < 64, "the cuts of a list are out of range")
        keys = arrays.cell_cut[begin:end]
        require(bool((keys[:-1] < keys[1:]).all()) and first in keys[:2], "the cuts of a list do not ascend")
        require((int(keys[-1]) - first) >> shift <= top, "a radix table ends before the cuts do")
        require(radix >= 0 and top >= 0 and radix + top + 2 <= len(arrays.cell_radix), "a radix table is cut off")
        edges = arrays.cell_radix[radix : radix + top + 2]
        ordered = bool((edges[:-1] <= edges[1:]).all()) and edges[0] >= 0 and edges[-1] <= end - begin
        require(ordered, "a radix table is out of order")
        table = arrays.cell[base : base + (end - begin) * int(rows[0, 0])]
        require(base >= 0 and len(table) == (end - begin) * rows[0, 0] and ranks >= 0, "cells are missing")
        limit = len(named) - ranks
        require(bool(table.min() >= sc.EMPTY and table.max() < limit), "a cell refers to a rank that does not exist")


def _all_of(eligible: U64, slots: int) -> bool:
    """Whether the first `slots` slots are all eligible."""
    whole, rest = divmod(slots, bits.WORD)
    if len(eligible) < whole + (rest > 0) or not (eligible[:whole] == ~np.uint64(0)).all():
        return False
    return not rest or int(eligible[whole]) & ((1 << rest) - 1) == (1 << rest) - 1


def _cut(answers: CellAnswers, k: int, sequence: I64, floor: Floor, first: int) -> None:
    """Drop what is not better than an event's floor. Answers are best first, so their number is all that changes."""
    lanes = len(answers.size)
    score, since = (column[first : first + lanes, None] for column in floor)
    there = np.arange(k) < answers.size[:, None]
    slots, scores = answers.slot.reshape(lanes, k), answers.score.reshape(lanes, k)
    earlier = sequence[np.where(there, slots, 0)] < since if len(sequence) else there
    answers.size[:] = (there & ((scores > score) | ((scores == score) & earlier))).sum(axis=1)


@kernel
def paint(first: I32, last: I32, best: int, cells_there: int) -> I32:
    """The `best` first of the intervals, in descending score, that cover each cell, then EMPTY.

    `following[c]` leads to the first cell from c on that has room.
    """
    table, filled = np.full(cells_there * best, sc.EMPTY, np.int32), np.zeros(cells_there, np.int32)
    following = np.arange(cells_there + 1)
    for rank in range(len(first)):
        cell = not_full(following, int64(first[rank]))
        while cell <= last[rank]:
            table[cell * best + filled[cell]] = rank
            filled[cell] += 1
            if filled[cell] == best:
                following[cell] = cell + 1
            cell = not_full(following, cell + 1)
    return table


@inlined
def not_full(following: I64, cell: int) -> int:
    """The first cell from `cell` on that is not full; shortens the path for the next call."""
    root = cell
    while at(following, root) != root:
        root = at(following, root)
    while at(following, cell) != root:
        after = at(following, cell)
        following[cell] = root
        cell = after
    return int(root)


class CellAnswers(NamedTuple):
    """Where answers go: how many of the k places of each event are used, or NOT_HERE; slots and scores."""

    size: I64
    slot: I32
    score: F64


class Waiting(NamedTuple):
    """A group of events and their cells.

    The row of the list, the value, the cuts that remain to be searched; then where the cell begins (or NOT_HERE,
    NOTHING), its first and its k-th rank.
    """

    row: I64
    value: I64
    low: I64
    high: I64
    cell: I64
    head: I32
    kth: I32


@kernel
def look_up(
    cells_of: Cells, table: SegmentArrays, asked: Asked, everyone: bool, answers: CellAnswers, work: I64
) -> int:
    """Write the k best of each event whose one list has cells; returns the number of the others, with size NOT_HERE.

    `everyone`: all slots are eligible. A group of events takes each step together: where each event would wait for
    memory, a group waits once.
    """
    k, first, last, slot, score = asked.k, asked.first, asked.last, answers.slot, answers.score
    best, others = cells_of.cell_list[0], 0
    everyone = everyone and asked.life == int(NO_LIFE)
    steps, ends = np.empty((5, GROUP), np.int64), np.empty((2, GROUP), np.int32)
    waiting = Waiting(steps[0], steps[1], steps[2], steps[3], steps[4], ends[0], ends[1])
    for group in range(first, last, GROUP):
        count = min(GROUP, last - group)
        for i in range(count):
            enter(cells_of, asked.events, group + i, waiting, i)
        for i in range(count):
            arrive(cells_of, waiting, i, best, k)
        for i in range(count):
            found, to = 0, (group - first + i) * k
            if at(waiting.cell, i) >= 0 and at(waiting.head, i) >= 0:
                ranks = at(cells_of.cell_list, at(waiting.row, i) + RANKS_BEGIN)
                if everyone and at(waiting.kth, i) >= 0:  # the usual case: no check per answer
                    for j in range(k):
                        answer = ANSWER * (ranks + at(cells_of.cell, at(waiting.cell, i) + j))
                        score[to + j] = at(cells_of.cell_answer, answer + WORTH)
                        slot[to + j] = int(at(cells_of.cell_answer, answer + OF))
                    taken = found = k
                else:
                    found, taken = pick(cells_of, table, asked, group + i, waiting, i, answers, to)
                work[CANDIDATES] += taken
                if found < k and taken == best:
                    waiting.cell[i] = int64(NOT_HERE)
            if at(waiting.cell, i) == NOT_HERE:
                found, others = int(NOT_HERE), others + 1
            answers.size[group - first + i] = found
            work[MATCHED] += max(found, 0)
        work[NODES_SEEN] += count
    return others


@inlined
def enter(cells_of: Cells, events: EventArrays, e: int, waiting: Waiting, i: int) -> None:
    """Find the list of an event, and the cuts to which the leading bits of its value lead."""
    row, value, here = int64(sc.EMPTY), int64(0), True
    for position in range(at(events.start, e), at(events.start, e + 1)):
        which = list_for(cells_of.list_of, at(events.attr, position), 0)
        if which != sc.EMPTY:
            here &= row == sc.EMPTY and at(cells_of.lists, which * sc.LIST + sc.SOLE) != 0
            here &= at(events.lo, position) == at(events.hi, position)
            row, value = int64((which + 1) * CELLS), at(events.lo, position)
    waiting.row[i], waiting.value[i] = row, value
    if not here or row == sc.EMPTY:
        waiting.cell[i] = int64(NOTHING if here else NOT_HERE)
        return
    cell_list, cell_cut, cell_radix = cells_of.cell_list, cells_of.cell_cut, cells_of.cell_radix
    cuts, end, first = at(cell_list, row + CUTS_BEGIN), at(cell_list, row + CUTS_END), at(cell_list, row + FIRST_KEY)
    # Of the cuts low..high, those before are at most the value, those after are greater.
    low = high = int64(end - cuts)
    if value < first:
        low = high = int64(value >= at(cell_cut, cuts))
    elif value < at(cell_cut, end - 1):
        ahead = ((np.uint64(value) ^ SIGN) - (np.uint64(first) ^ SIGN)) >> np.uint64(at(cell_list, row + SHIFT))
        radix = at(cell_list, row + RADIX_BEGIN) + int64(ahead)
        low, high = int64(at(cell_radix, radix)), int64(at(cell_radix, radix + 1))
    waiting.cell[i], waiting.low[i], waiting.high[i] = 0, low, high


@inlined
def arrive(cells_of: Cells, waiting: Waiting, i: int, best: int, k: int) -> None:
    """Find the cell of a value, and read both its ends; NOTHING before the first cut."""
    if at(waiting.cell, i) < 0:
        return
    cuts = at(cells_of.cell_list, at(waiting.row, i) + CUTS_BEGIN)
    begin, end = cuts + at(waiting.low, i), cuts + at(waiting.high, i)
    low = bisect_right(cells_of.cell_cut, begin, end, at(waiting.value, i)) - cuts
    if low == 0:
        waiting.cell[i] = int64(NOTHING)
        return
    cell = at(cells_of.cell_list, at(waiting.row, i) + CELLS_BEGIN) + (low - 1) * best
    waiting.cell[i] = cell
    waiting.head[i], waiting.kth[i] = at(cells_of.cell, cell), at(cells_of.cell, cell + k - 1)


@inlined
def pick(
    cells_of: Cells,
    table: SegmentArrays,
    asked: Asked,
    e: int,
    waiting: Waiting,
    i: int,
    answers: CellAnswers,
    to: int,
) -> tuple[int, int]:
    """Write the eligible and living answers of a cell, at most k; returns their number, and how many were looked at."""
    taken, found, ranks = 0, 0, at(cells_of.cell_list, at(waiting.row, i) + RANKS_BEGIN)
    while taken < cells_of.cell_list[0] and found < asked.k:
        rank = at(cells_of.cell, at(waiting.cell, i) + taken)
        if rank < 0:
            break
        taken += 1
        answer = ANSWER * (ranks + rank)
        slot = int(at(cells_of.cell_answer, answer + OF))
        if is_set(asked.eligible, slot) and lives_at(table, asked, e, slot):
            answers.slot[to + found] = slot
            answers.score[to + found] = at(cells_of.cell_answer, answer + WORTH)
            found += 1
    return found, taken
