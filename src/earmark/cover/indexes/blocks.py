"""Which members cover each of these: kd-ordered blocks of 64, by attribute set. The quickest index, for batches.

Not a paper's structure. A clause can only contain one that constrains at least the same attributes, so clauses are
grouped by their attribute set, and a query goes to the groups whose set is part of its own. In a group the points of
dominance space (`points.py`) are laid out in kd-order, 64 a block, and the greatest codes of 64 blocks at a time are a
block of corners themselves, compared by the same few instructions:

    hash      h({})   h({age})   h({age, city})          one per group; a query with 3 attributes looks up 8 sets,
    entries   0..2    2..40      40..9000                or goes through all groups where these are fewer
    corners                      [64 blocks] [64] [13]   column by column: the greatest code of each block
    coords                       [64 points] … [64]      column by column
              scanned one by one     (a group of fewer than SMALL)

Where codes tell all keys apart (an even scale with no shift) and the members of a group are *plain*, of one clause and
one interval an attribute, without NULL, codes decide by themselves and the table is not looked at again.

Invariant (`check`): each clause of a member is in exactly one place: in its group, or in the tail of the clauses that
came since the last build. Corners are at least the codes below them. Entries of removed members stay until then.

Complexity: a query O(groups it goes to + corners / 64 + blocks not ruled out); memory 4 bytes per
attribute of a clause, and 16. Insert O(1), with a new build when the tail or the removed are a share of the whole.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import NamedTuple

import numpy as np

from earmark.cover.canonical import outranks, reports
from earmark.cover.exact import clauses_meet
from earmark.cover.indexes.members import COMPARISONS, NODES, SUBSCRIBE, Members, keep_covering
from earmark.cover.indexes.points import BOTTOM, Scale, code, learned, points_of
from earmark.errors import require
from earmark.flat.arrays import I32, I64, U8, U64, frozen, pointers_of
from earmark.flat.machine import aligned, at, ctz64
from earmark.index.blocks.dominance import I16, LANES, block_columns, dominating, kd_order
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays, offsets, spread
from earmark.segment.segment import no_arrays
from earmark.threads import RUNS, in_parallel, runs_of

SMALL = 24
"""A group of fewer clauses is scanned one by one: a block of mostly padding costs more."""
TAIL, TAIL_SHARE = 256, 16
"""A new build when the tail is longer than TAIL and than one in TAIL_SHARE of the entries."""
APIECE = 1 << 10
"""Questions of a batch that are worth another thread."""
NO_GROUP, SCANNED = -1, -1


class Groups(NamedTuple):
    """Clauses by attribute set. `mixed` has a random word for each attribute; a set's hash is the XOR of its words."""

    mixed: U64
    hash: U64
    bucket: I32
    attr_start: I32
    attr: I32
    entry_start: I32
    entry: I32
    owner: I32
    sequence: I64
    block_at: I64
    corner_at: I64
    plain: U8
    coords: I16
    corners: I16


class CoverSearch(NamedTuple):
    """What a search reads: the table, the codes of its keys, the groups, which slots are members, and the tail."""

    table: SegmentArrays
    scale: Scale
    groups: Groups
    live: U64
    tail: I32
    everyone: I32
    """The members, where a slot is asked about that never matches."""


class Query(NamedTuple):
    """Room for one query: its codes by constraint (−l, r), whether they are as good as the keys, its point in the group
    at hand, and those of its attributes that some group has.
    """

    codes: I16
    exact: U8
    point: I16
    known: I32


class CoverBlocks(Members):
    """Clauses in kd-ordered blocks, by attribute set."""

    def __init__(self, table: SegmentArrays) -> None:
        super().__init__(table)
        self._renew(np.empty(0, np.int32))

    @property
    def arrays(self) -> Groups:
        """The groups."""
        return self._groups

    def _renew(self, slots: I32) -> None:
        """Build the index again, from these members."""
        self._scale, self._groups = _built(self.table, slots) if len(slots) else _of_nothing()
        self._tail: list[int] = []
        self._tail_slots = frozen(np.array(self._tail, np.int32))
        self._removed: set[int] = set()

    def _put(self, slots: list[int]) -> None:
        # One that was removed and comes back finds its old entries.
        self._tail += [slot for slot in slots if slot not in self._removed]
        self._removed.difference_update(slots)
        self._settle()

    def _take(self, slots: list[int]) -> None:
        gone = set(slots)
        self._removed |= gone.difference(self._tail)
        self._tail = [slot for slot in self._tail if slot not in gone]
        self._settle()

    def _settle(self) -> None:
        entries = len(self._groups.entry)
        if len(self._tail) > max(TAIL, entries // TAIL_SHARE) or len(self._removed) > max(TAIL, entries // 2):
            self._renew(self.members())
        else:
            self._tail_slots = frozen(np.array(self._tail, np.int32))

    def _search(self, slot: int, k: int, counters: I64) -> I32:
        return self._answers(np.array([slot], np.int32), k, counters)[1]

    def covering_batch(self, slots: I32, k: int | None = None, threads: int = 1) -> tuple[I64, I32]:
        """`covering` of each slot, on up to so many threads: (pointers, slots)."""
        chosen = np.asarray(slots, np.int32)
        for slot in (int(chosen.min()), int(chosen.max())) if len(chosen) else ():
            self._limit(slot, k)
        limit = self._count if k is None else min(k, self._count)
        runs = runs_of(len(chosen), min(RUNS * threads, len(chosen) // APIECE))
        spent = np.zeros((len(runs), 2), np.int64)

        def answer(number: int) -> tuple[I64, I32]:
            return self._answers(chosen[slice(*runs[number])], limit, spent[number])

        parts = in_parallel(answer, range(len(runs)), threads)
        self._spent[SUBSCRIBE] += spent.sum(axis=0)
        counts, answers = [np.diff(pointers) for pointers, _ in parts], [found for _, found in parts]
        return pointers_of(np.concatenate(counts)), np.concatenate(answers)

    def meeting_batch(self, slots: I32) -> tuple[I64, I32]:
        """Members that share an event with each slot, each once, in no particular order: (pointers, members)."""
        searched = CoverSearch(self.table, self._scale, self._groups, self._live, self._tail_slots, self._tail_slots)
        return meet_many(searched, np.asarray(slots, np.int32))

    def _answers(self, chosen: I32, limit: int, counters: I64) -> tuple[I64, I32]:
        start = self.table.clause_start
        everyone = self.members() if (start[chosen] == start[chosen + 1]).any() else chosen[:0]
        searched = CoverSearch(self.table, self._scale, self._groups, self._live, self._tail_slots, everyone)
        return search_many(searched, chosen, limit, counters)

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds. O(entries)."""
        super().check()
        groups, table = self._groups, self.table
        live, tail = self.members(), set(self._tail)
        once = len(tail) == len(self._tail) and tail.issubset(live.tolist())
        require(once, "the tail holds what is not a member, or holds it twice")
        built = np.setdiff1d(live, self._tail).astype(np.int64)
        entries = groups.entry[np.isin(groups.owner, built)]
        require(np.array_equal(np.sort(entries), spread(table.clause_start, built)[1]), "members and entries disagree")
        for g in range(len(groups.hash)):
            self._check_group(g)

    def _check_group(self, g: int) -> None:
        groups, table = self._groups, self.table
        attrs = groups.attr[groups.attr_start[g] : groups.attr_start[g + 1]]
        entries = groups.entry[groups.entry_start[g] : groups.entry_start[g + 1]].astype(np.int64)
        for clause in entries.tolist():
            own = table.attr[table.constraint_start[clause] : table.constraint_start[clause + 1]]
            require(np.array_equal(own, attrs), f"clause {clause} is in the group of other attributes")
        if groups.block_at[g] == SCANNED:
            return
        points = _columns_of(self.table, self._scale, entries, attrs)
        coords = block_columns(points)
        stored = groups.coords[groups.block_at[g] :][: coords.size].reshape(coords.shape)
        require(bool((stored == coords).all()), f"group {g} holds other codes than its clauses have")
        least = block_columns(coords.max(axis=2))
        corners = groups.corners[groups.corner_at[g] :][: least.size].reshape(least.shape)
        require(bool((corners >= least).all()), f"group {g} has a corner below its points")


# --- building ----------------------------------------------------------------------------------------------------


def _built(table: SegmentArrays, slots: I32) -> tuple[Scale, Groups]:
    """The codes of keys, and the groups, of these slots."""
    clauses = spread(table.clause_start, slots.astype(np.int64))[1]
    owners = np.repeat(slots, np.diff(table.clause_start)[slots])
    scale = learned(table, clauses, None)
    return scale, _grouped(table, scale, clauses, owners)


@cache
def _of_nothing() -> tuple[Scale, Groups]:
    """The same without slots: small layers, whose members are all in the tail, are made all the time."""
    return _built(no_arrays(), np.empty(0, np.int32))


def _grouped(table: SegmentArrays, scale: Scale, clauses: I64, owners: I32) -> Groups:
    """The groups of these clauses; another draw of words in the unlikely case that two sets share a hash."""
    for seed in count():
        mixed = np.random.default_rng(seed).integers(1, 2**64, len(scale.axis_of), np.uint64, endpoint=False)
        mixed[scale.axis_of < 0] = 0
        hashes = _hashes(table, clauses, mixed)
        unique, first, group = np.unique(hashes, return_index=True, return_inverse=True)
        if _same_sets(table, clauses, clauses[first][group]):
            break
    order = np.argsort(group, kind="stable")
    entry_start = offsets(np.bincount(group, minlength=len(unique)))
    attr_start, positions = spread(table.constraint_start, clauses[first])
    block_at, corner_at = np.full(len(unique), SCANNED, np.int64), np.full(len(unique), SCANNED, np.int64)
    coords, corners = [np.empty(0, np.int16)], [np.empty(0, np.int16)]
    blocks_end = corners_end = 0
    for g in np.flatnonzero(np.diff(entry_start) >= SMALL).tolist():
        part = order[entry_start[g] : entry_start[g + 1]]
        attrs = table.attr[positions[attr_start[g] : attr_start[g + 1]]]
        points = _columns_of(table, scale, clauses[part], attrs)
        by_place = kd_order(points)
        order[entry_start[g] : entry_start[g + 1]] = part[by_place]
        of_blocks = block_columns(points[by_place])
        coords.append(of_blocks.ravel())
        corners.append(block_columns(of_blocks.max(axis=2)).ravel())
        block_at[g], corner_at[g] = blocks_end, corners_end
        blocks_end, corners_end = blocks_end + len(coords[-1]), corners_end + len(corners[-1])
    plain = _plain_groups(table, scale, clauses, owners, group, len(unique))
    blocks, tops = aligned(blocks_end, np.int16), aligned(corners_end, np.int16)
    np.concatenate(coords, out=blocks)
    np.concatenate(corners, out=tops)
    of_sets = mixed, unique, hash_table(unique), attr_start, table.attr[positions], entry_start
    entries = clauses[order].astype(np.int32), owners[order], table.sequence[owners[order]]
    return Groups._make(map(frozen, (*of_sets, *entries, block_at, corner_at, plain, blocks, tops)))


def _hashes(table: SegmentArrays, clauses: I64, mixed: U64) -> U64:
    start, constraints = spread(table.constraint_start, clauses)
    so_far = np.zeros(len(constraints) + 1, np.uint64)
    np.bitwise_xor.accumulate(mixed[table.attr[constraints]], out=so_far[1:])
    return so_far[start[1:]] ^ so_far[start[:-1]]


def _same_sets(table: SegmentArrays, clauses: I64, others: I64) -> bool:
    """Whether each clause constrains the same attributes as the other one."""
    start, own = spread(table.constraint_start, clauses)
    other_start, theirs = spread(table.constraint_start, others)
    return bool(np.array_equal(start, other_start) and np.array_equal(table.attr[own], table.attr[theirs]))


@kernel
def hash_table(hashes: U64) -> I32:
    """Open addressing: the group of a hash, found from hash modulo length on."""
    size = 1
    while size <= 2 * len(hashes):
        size *= 2
    table, mask = np.full(size, NO_GROUP, np.int32), np.uint64(size - 1)
    for group in range(len(hashes)):
        place = hashes[group] & mask
        while table[place] != NO_GROUP:
            place = (place + np.uint64(1)) & mask
        table[place] = group
    return table


def _columns_of(table: SegmentArrays, scale: Scale, clauses: I64, attrs: I32) -> I16:
    """Points in the columns of a group: −l and r of each of its attributes, ascending."""
    if len(attrs) == 0:
        return np.empty((len(clauses), 0), np.int16)
    axis_of = np.full(int(attrs.max()) + 1, -1, np.int32)
    axis_of[attrs] = np.arange(len(attrs))
    axes = scale.axis_of[attrs].astype(np.int64)
    start, places = spread(scale.cut_start, axes)
    own = (axis_of, scale.base[axes], scale.top[axes], scale.shift[axes], start, scale.cuts[places])
    return points_of(table, Scale._make(map(frozen, own)), clauses)


def _plain_groups(table: SegmentArrays, scale: Scale, clauses: I64, owners: I32, group: I64, groups: int) -> U8:
    """The groups whose codes say everything about a query whose keys are inside the scale."""
    start, constraints = spread(table.constraint_start, clauses)
    axis = scale.axis_of[table.attr[constraints]]
    first, last = table.interval_start[constraints], table.interval_start[constraints + 1]
    good = (last - first == 1) & (table.accepts_null[constraints] == 0) & (scale.shift[axis] == 0)
    good[good] = (table.lo[first[good]] <= scale.top[axis[good]]) & (table.hi[first[good]] >= scale.base[axis[good]])
    plain = np.ones(groups, np.uint8)
    plain[group[np.repeat(np.arange(len(clauses)), np.diff(start))[~good]]] = 0
    plain[group[np.diff(table.clause_start)[owners] != 1]] = 0
    return plain


# --- search ------------------------------------------------------------------------------------------------------


@kernel
def search_many(searched: CoverSearch, slots: I32, k: int, counters: I64) -> tuple[I64, I32]:
    """Answer the queries: (pointers, members)."""
    table, most, i = searched.table, 0, 0
    pointers, out = np.zeros(len(slots) + 1, np.int64), np.empty(max(4 * len(slots), 64), np.int32)
    for slot in slots:
        clause = at(table.clause_start, slot)
        if clause < at(table.clause_start, slot + 1):
            most = max(most, at(table.constraint_start, clause + 1) - at(table.constraint_start, clause))
    codes, point = np.empty(2 * most, np.int16), np.empty(2 * most, np.int16)
    query = Query(codes, np.empty(most, np.uint8), point, np.empty(most, np.int32))
    while i < len(slots):
        slot, begin = slots[i], pointers[i]
        room = min(begin + k, len(out))
        first, last = at(table.clause_start, slot), at(table.clause_start, slot + 1)
        candidates = searched.everyone if first == last else searched.tail
        kept = keep_covering(table, slot, candidates, room - begin, counters)
        found = begin + len(kept)
        out[begin:found] = kept
        if first < last:
            found = search_groups(searched, slot, query, out, found, room, counters)
        if found == len(out) and found - begin < k:  # no room: again, with more
            out = np.concatenate((out, np.empty(max(len(out), k), np.int32)))
            continue
        i += 1
        pointers[i] = found
    return pointers, out[: pointers[i]]


@inlined
def search_groups(
    searched: CoverSearch, slot: int, query: Query, out: I32, found: int, room: int, counters: I64
) -> int:
    """Members in the groups whose attributes are among those of the slot's first clause."""
    table, groups = searched.table, searched.groups
    clause = at(table.clause_start, slot)
    first, last = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
    fill_codes(table, searched.scale, first, last, query)
    width = 0
    for constraint in range(first, last):
        attr = at(table.attr, constraint)
        if attr < len(groups.mixed) and at(groups.mixed, attr) != np.uint64(0):
            query.known[width] = attr
            width += 1
    if width < 20 and (1 << width) < len(groups.hash):
        key = np.uint64(0)
        mask = np.uint64(len(groups.bucket) - 1)
        for subset in range(1, (1 << width) + 1):
            place = key & mask
            group = groups.bucket[place]
            while group != NO_GROUP and at(groups.hash, group) != key:
                place = (place + np.uint64(1)) & mask
                group = groups.bucket[place]
            if group != NO_GROUP:
                found = search_group(searched, group, slot, query, out, found, room, counters)
            if found == room or subset == 1 << width:
                break
            # The next subset differs in one attribute (Gray code).
            key ^= at(groups.mixed, at(query.known, ctz64(np.uint64(subset))))
    else:
        for group in range(len(groups.hash)):
            if found < room:
                found = search_group(searched, group, slot, query, out, found, room, counters)
    return found


@inlined
def fill_codes(table: SegmentArrays, scale: Scale, first: int, last: int, query: Query) -> None:
    """The codes of constraints, −l and r; those on attributes without an axis are not asked for."""
    for constraint in range(first, last):
        attr, i = at(table.attr, constraint), constraint - first
        axis = int(at(scale.axis_of, attr)) if attr < len(scale.axis_of) else -1
        begin, end = at(table.interval_start, constraint), at(table.interval_start, constraint + 1)
        query.exact[i] = 0
        query.codes[2 * i] = int(BOTTOM)
        query.codes[2 * i + 1] = int(BOTTOM)
        if axis >= 0 and begin < end:
            lo, hi = at(table.lo, begin), at(table.hi, end - 1)
            query.codes[2 * i] = -code(scale, axis, lo)
            query.codes[2 * i + 1] = code(scale, axis, hi)
            inside = (lo >= at(scale.base, axis)) & (hi <= at(scale.top, axis))
            if inside and at(table.accepts_null, constraint) == 0:
                query.exact[i] = 1


@inlined
def search_group(
    searched: CoverSearch, group: int, slot: int, query: Query, out: I32, found: int, room: int, counters: I64
) -> int:
    """Members in one group, unless it constrains an attribute that the query does not."""
    table, groups = searched.table, searched.groups
    clause = at(table.clause_start, slot)
    first, last = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
    columns, position = 0, first
    exact = at(groups.plain, group) != 0 and at(table.clause_start, slot + 1) - at(table.clause_start, slot) == 1
    for i in range(at(groups.attr_start, group), at(groups.attr_start, group + 1)):
        attr = at(groups.attr, i)
        while position < last and at(table.attr, position) < attr:
            position += 1
        if position == last or at(table.attr, position) != attr:
            return found
        query.point[columns] = query.codes[2 * (position - first)]
        query.point[columns + 1] = query.codes[2 * (position - first) + 1]
        exact = exact and at(query.exact, position - first) != 0
        columns += 2
    begin, end = at(groups.entry_start, group), at(groups.entry_start, group + 1)
    base = at(groups.block_at, group)
    if base == SCANNED:
        counters[COMPARISONS] += end - begin
        for i in range(begin, end):
            found = take(searched, i, slot, False, out, found, room)
        return found
    blocks = (end - begin + int(LANES) - 1) // int(LANES)
    everything = ~np.uint64(0)
    nodes, compared = 0, 0
    for upper in range((blocks + int(LANES) - 1) // int(LANES)):
        corner = at(groups.corner_at, group) + upper * columns * int(LANES)
        open_blocks = dominating(groups.corners, corner, columns, query.point, everything)
        nodes += 1
        while open_blocks != np.uint64(0) and found < room:
            block = upper * int(LANES) + ctz64(open_blocks)
            open_blocks &= open_blocks - np.uint64(1)
            if block >= blocks:
                break  # padding, where there are no columns to rule it out
            compared += 1
            place = base + block * columns * int(LANES)
            mask = dominating(groups.coords, place, columns, query.point, everything)
            while mask != np.uint64(0):
                i = begin + block * int(LANES) + ctz64(mask)
                mask &= mask - np.uint64(1)
                if i < end:
                    found = take(searched, i, slot, exact, out, found, room)
    counters[NODES] += nodes + compared
    counters[COMPARISONS] += compared * int(LANES)
    return found


@inlined
def take(searched: CoverSearch, entry: int, slot: int, exact: bool, out: I32, found: int, room: int) -> int:
    """Append the owner of an entry if it is a member that covers the slot, and there is room.

    `exact`: that its clause contains the slot's only one is known.
    """
    table, groups = searched.table, searched.groups
    owner = at(groups.owner, entry)
    is_live = (searched.live[owner >> 6] >> np.uint64(owner & 63)) & np.uint64(1)
    if found == room or owner == slot or not is_live:
        return found
    if exact:
        # the first half is that of `outranks`, from an array that is in order
        covers = at(groups.sequence, entry) < at(table.sequence, slot) or outranks(table, owner, slot)
    else:
        covers = reports(table, owner, at(groups.entry, entry), slot)
    if covers:
        out[found] = owner
        found += 1
    return found


# --- who meets whom ----------------------------------------------------------------------------------------------


@kernel
def meet_many(searched: CoverSearch, slots: I32) -> tuple[I64, I32]:
    """The members that share an event with each slot: (pointers, members).

    Two intervals meet where each begins before the other ends: a point dominates the reverse of the query's.
    """
    table, groups, widest = searched.table, searched.groups, 0
    for group in range(len(groups.hash)):
        widest = max(widest, at(groups.attr_start, group + 1) - at(groups.attr_start, group))
    pointers, found = np.zeros(len(slots) + 1, np.int64), 0
    out, point = np.empty(max(4 * len(slots), 64), np.int32), np.empty(2 * widest, np.int16)
    asked = np.full(len(table.sequence), -1, np.int32)  # by member, the last question that it answered
    for i in range(len(slots)):
        asked[slots[i]] = i
        for clause in range(at(table.clause_start, slots[i]), at(table.clause_start, slots[i] + 1)):
            if found + len(searched.tail) > len(out):
                out = np.concatenate((out, np.empty(len(out) + len(searched.tail), np.int32)))
            for j in range(len(searched.tail)):
                other = at(searched.tail, j)
                for own in range(at(table.clause_start, other), at(table.clause_start, other + 1)):
                    if asked[other] != i and clauses_meet(table, clause, own):
                        asked[other], out[found] = i, other
                        found += 1
            for group in range(len(groups.hash)):
                entries = at(groups.entry_start, group + 1) - at(groups.entry_start, group)
                if found + entries > len(out):
                    out = np.concatenate((out, np.empty(len(out) + entries, np.int32)))
                found = meet_group(searched, group, clause, point, i, asked, out, found)
        pointers[i + 1] = found
    return pointers, out[:found]


@inlined
def meet_group(
    searched: CoverSearch, group: int, clause: int, point: I16, question: int, asked: I32, out: I32, found: int
) -> int:
    """Append the members in one group that share an event with a clause; there is room for all of them."""
    groups = searched.groups
    begin, end = at(groups.entry_start, group), at(groups.entry_start, group + 1)
    base = at(groups.block_at, group)
    if base == SCANNED:
        for i in range(begin, end):
            found = take_meeting(searched, i, clause, question, asked, out, found)
        return found
    columns = fill_reverse(searched, group, clause, point)
    blocks = (end - begin + int(LANES) - 1) // int(LANES)
    everything = ~np.uint64(0)
    for upper in range((blocks + int(LANES) - 1) // int(LANES)):
        corner = at(groups.corner_at, group) + upper * columns * int(LANES)
        open_blocks = dominating(groups.corners, corner, columns, point, everything)
        while open_blocks != np.uint64(0):
            block = upper * int(LANES) + ctz64(open_blocks)
            open_blocks &= open_blocks - np.uint64(1)
            if block >= blocks:
                break  # padding, where there are no columns to rule it out
            mask = dominating(groups.coords, base + block * columns * int(LANES), columns, point, everything)
            while mask != np.uint64(0):
                i = begin + block * int(LANES) + ctz64(mask)
                mask &= mask - np.uint64(1)
                if i < end:
                    found = take_meeting(searched, i, clause, question, asked, out, found)
    return found


@inlined
def fill_reverse(searched: CoverSearch, group: int, clause: int, point: I16) -> int:
    """Write the point that those of a group dominate which meet a clause, −r and l; returns how many columns it has.

    Where the clause asks for nothing, or takes NULL, everything dominates it.
    """
    table, groups, scale = searched.table, searched.groups, searched.scale
    position, last = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
    columns = 0
    for i in range(at(groups.attr_start, group), at(groups.attr_start, group + 1)):
        attr = at(groups.attr, i)
        point[columns], point[columns + 1] = int(BOTTOM), int(BOTTOM)
        while position < last and at(table.attr, position) < attr:
            position += 1
        if position < last and at(table.attr, position) == attr and at(table.accepts_null, position) == 0:
            axis = int(at(scale.axis_of, attr))
            lowest, highest = at(table.interval_start, position), at(table.interval_start, position + 1) - 1
            point[columns] = -code(scale, axis, at(table.hi, highest))
            point[columns + 1] = code(scale, axis, at(table.lo, lowest))
        columns += 2
    return columns


@inlined
def take_meeting(
    searched: CoverSearch, entry: int, clause: int, question: int, asked: I32, out: I32, found: int
) -> int:
    """Append the owner of an entry if it is a member, shares an event with a clause, and was not found before."""
    owner = at(searched.groups.owner, entry)
    is_live = (searched.live[owner >> 6] >> np.uint64(owner & 63)) & np.uint64(1)
    if is_live and asked[owner] != question and clauses_meet(searched.table, at(searched.groups.entry, entry), clause):
        asked[owner], out[found] = question, owner
        found += 1
    return found
