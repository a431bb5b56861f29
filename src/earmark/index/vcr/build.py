"""From slots to lists: where each clause goes on the grid, and the stores of ID lists, built in bulk or added to.

A slot is on the grid when each of its clauses has a constraint on both attributes of the grid that does not accept
NULL; otherwise it is *residual*, and scanned. The rectangles of a clause are all pairs of its intervals on x and y,
or their hull when there are too many. Each is decomposed, and every piece gives a *code*:

    code = ID << 1 | maybe          maybe = the slot has more constraints, or the VCR is larger than asked

Where the grid is coarser than what was asked, a rectangle ends inside cells. Those cells are its *border*, cut by
itself and verified; the inner part is exact:

    asked 2.5 … 7.5 on cells of width 1:     2 [3 4 5 6] 7        borders 2 and 7, inner 3 … 6

`built` chooses a grid and fills the lists in bulk. `extended` adds slots to the delta of an index, on the same grid; it
declines when the delta would become so large that building again is better. Nothing is changed in place: every array
that differs is a new one.

Invariant: an event that a slot on the grid matches is in a VCR of that slot. A code without `maybe` means a
VCR every event in which matches the slot. `check_lists` recomputes every decomposition and compares.

Complexity: O(pieces) for a slot; the array store adds O(VCRs of the grid), the hashed one O(activated).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import earmark.index.vcr.arrays as vc
from earmark.errors import EarmarkError, require
from earmark.flat import bits
from earmark.flat.arrays import I32, I64, U64, frozen, read_only
from earmark.flat.bisection import bisect_right
from earmark.flat.machine import at
from earmark.index.driver import read_only_table
from earmark.index.marks import MAYBE, SLOT
from earmark.index.stored import element_types
from earmark.index.vcr.arrays import EMPTY, END, FREE, U32, VcrArrays, VcrGrid, VcrOptions
from earmark.index.vcr.plan import GREATEST, LEAST, grid_for
from earmark.index.vcr.rectangles import count_pieces, exponent, piece
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays

FEWEST_LATE = 1 << 14
LATE_SHARE = 1 / 8
"""The delta is merged when it has this share of all entries, and FEWEST_LATE at least."""
LEAST_HASH, MOST_HASH = 8, 1 << 31
MOST_ENTRIES = 1 << 31
RESIDUAL = -1
"""Number of pieces of a slot that is not on the grid."""
UNKEYED = -1
"""Position of a constraint that is not there, or accepts NULL."""
MOST_RECTANGLES = 64
"""A clause of more rectangles is placed as their hull and verified."""
MOST_PIECES = 1024
"""A slot of more pieces is residual: its lists would cost more memory than it costs time to scan it."""
NAMED = {"mode": vc.MODES, "decomposition": vc.DECOMPOSITIONS, "store": vc.STORES, "numbering": vc.NUMBERINGS}
"""Options that are given by name."""


def checked_options(
    attributes: tuple[int, ...] | None,
    longest: tuple[int, int] | None,
    cells: tuple[int, int] | None,
    hash_size: int | None,
    **named: str | None,
) -> VcrOptions:
    """The options as numbers; EarmarkError says which makes no sense."""
    x, y = _pair_of("attributes", (*attributes, FREE)[:2] if attributes else None, FREE)
    if attributes is not None and (len(attributes) not in (1, 2) or x < 0 or x == y):
        raise EarmarkError(f"expected one or two different attribute numbers, got {attributes!r}")
    width, height = _pair_of("longest", longest, 1)
    if longest and (width & (width - 1) or height & (height - 1) or width * height > 1 << vc.MOST_SHAPE):
        limit = f"{1 << vc.MOST_SHAPE:,}"
        raise EarmarkError(f"longest sides are powers of two, their product at most {limit}, not {longest!r}.")
    sides = (exponent(width), exponent(height)) if longest else (FREE, FREE)
    if hash_size is not None and not LEAST_HASH <= hash_size < MOST_HASH:
        raise EarmarkError(f"expected a hash_size from {LEAST_HASH} to {MOST_HASH - 1:,}, got {hash_size}")
    for name, given in named.items():
        if given is not None and given not in NAMED[name]:
            raise EarmarkError(f"expected {' or '.join(map(repr, NAMED[name]))} for {name}, got {given!r}")
    numbers = {name: NAMED[name].index(given) for name, given in named.items() if given is not None}
    places = FREE if hash_size is None else hash_size
    return VcrOptions(x, y, *sides, *_pair_of("cells", cells, 2), hash_size=places, **numbers)


def _pair_of(name: str, given: tuple[int, ...] | None, least: int) -> tuple[int, int]:
    if given is None:
        return FREE, FREE
    if not (isinstance(given, tuple) and len(given) == 2 and all(isinstance(n, int) and n >= least for n in given)):
        raise EarmarkError(f"expected two whole numbers of at least {least} for {name}, got {given!r}")
    return given[0], given[1]


def built(table: SegmentArrays, slots: I32, options: VcrOptions) -> VcrArrays:
    """The arrays for these slots of a table."""
    table, total = read_only_table(table), len(table.clause_start) - 1
    grid = VcrGrid._make(map(frozen, grid_for(table, slots, options)))
    counts, codes, entries = _codes(table, grid, slots)
    info = grid.info.copy()
    key = _key_table(codes, options.hash_size) if info[vc.STORE] == vc.HASHED else np.empty(0, np.int64)
    start, entry = fill_lists(codes, entries, key, len(key) or int(info[vc.VCRS]))
    info[vc.SLOTS], info[vc.PLACED], info[vc.GONE_BEFORE] = total, (counts > 0).sum(), total - len(slots)
    info[vc.ACTIVATED] = np.count_nonzero(np.diff(start))
    nothing = {name: np.empty(0, kind) for name, kind in element_types(VcrArrays).items()}
    run_start, run_first, run_last = vc.distance_tables(info)
    return VcrArrays(**nothing)._replace(
        info=info,
        options=np.array(options, np.int64),
        cut_x=grid.cut_x,
        cut_y=grid.cut_y,
        run_start=run_start,
        run_first=run_first,
        run_last=run_last,
        key=key,
        start=start,
        entry=entry,
        bounds=bounds_of(table, grid, total if len(entry) and entry.max() >= MAYBE else 0),
        residual=bits.from_slots(slots[counts == RESIDUAL], total),
        gone=bits.all_set(total) & ~bits.from_slots(slots, total),
    )


def _codes(table: SegmentArrays, grid: VcrGrid, slots: I32) -> tuple[I64, I64, U32]:
    """How many codes each slot has, and all codes (IDs) and entries, slot by slot."""
    counts, codes, entries = codes_of(table, grid, read_only(slots))
    total = int(counts[counts > 0].sum())
    if total >= MOST_ENTRIES:
        raise EarmarkError(f"{total:,} list entries are more than a VCR index can hold; give it longer sides")
    return counts, codes, entries


def _key_table(codes: I64, size: int) -> I64:
    """A hash table with the IDs in it: of `size` places, or twice as many as there are IDs."""
    if size == FREE:
        trial = np.full(LEAST_HASH + 2 * len(codes), EMPTY, np.int64)
        size = LEAST_HASH + 2 * add_keys(codes, trial, len(codes))
    keys = np.full(size, EMPTY, np.int64)
    if add_keys(codes, keys, size - 1) >= size:
        raise EarmarkError(f"hash_size {size:,} is too small: more VCRs are in use")
    return keys


def gone_with(old: VcrArrays, table: SegmentArrays, slots: I32) -> U64:
    """The bitmap of slots that are gone, over a table that has grown: also new slots that are not among `slots`."""
    total, known = len(table.clause_start) - 1, int(old.info[vc.SLOTS])
    unknown = np.setdiff1d(np.arange(known, total, dtype=np.int32), slots)
    return bits.either(old.gone, bits.from_slots(unknown, total))


def extended(table: SegmentArrays, old: VcrArrays, slots: I32) -> VcrArrays | None:
    """The arrays with new slots in the delta, or None when it is time to build again."""
    table, total = read_only_table(table), len(table.clause_start) - 1
    if len(slots) > max(FEWEST_LATE, LATE_SHARE * int(old.info[vc.SLOTS])):
        return None
    counts, codes, entries = _codes(table, vc.grid_of(old), slots)
    scanned = slots[counts == RESIDUAL]
    if len(old.late_entry) + len(codes) + len(scanned) > max(FEWEST_LATE, LATE_SHARE * len(old.entry)):
        return None
    info, gone = old.info.copy(), gone_with(old, table, slots)
    info[vc.SLOTS] = total
    info[vc.GONE_BEFORE] += bits.count(gone) - bits.count(old.gone)
    info[vc.LATE_SLOTS] += (counts > 0).sum()
    used = int(info[vc.LATE_KEYS])
    key, head, following, info[vc.LATE_KEYS] = chained(old.late_key, old.late_head, old.late_next, codes, used)
    return old._replace(
        info=info,
        late_key=key,
        late_head=head,
        late_entry=np.concatenate([old.late_entry, entries]),
        late_next=following,
        residual=bits.either(old.residual, bits.from_slots(scanned, total)),
        gone=gone,
    )


def check_lists(table: SegmentArrays, arrays: VcrArrays) -> None:
    """Assert that lists and chains hold exactly the decompositions of their slots, and no slot is forgotten."""
    grid, known = vc.grid_of(arrays), np.arange(int(arrays.info[vc.SLOTS]), dtype=np.int32)
    counts, codes, entries = _codes(table, grid, known)
    found, listed = _listed(arrays)
    residual = bits.to_slots(arrays.residual)
    require(not len(np.intersect1d(residual, listed)), "a slot is on the grid and residual")
    require(bool((counts[residual] == RESIDUAL).all()), "a slot is scanned that could be on the grid")
    here = np.setdiff1d(known, bits.to_slots(arrays.gone))
    forgotten = np.setdiff1d(here, np.union1d(listed, residual))
    require(bool((counts[forgotten] == 0).all()), "a slot is in no list")
    bounds = bounds_of(table, grid, len(arrays.bounds) >> 2)
    require(np.array_equal(bounds, arrays.bounds), "the bounds are not the slots'")
    mine = np.isin(entries & np.uint32(SLOT), listed)
    wanted = _sorted(codes[mine], entries[mine])
    require(np.array_equal(found, wanted), "the lists are not the decompositions of their slots")
    require(int(arrays.info[vc.PLACED] + arrays.info[vc.LATE_SLOTS]) == len(listed), "slots on the grid are miscounted")


def _listed(arrays: VcrArrays) -> tuple[I64, I32]:
    """(ID, entry) of everything in lists and chains, ascending; and the slots among them."""
    lists = arrays.key if arrays.info[vc.STORE] == vc.HASHED else np.arange(len(arrays.start) - 1)
    codes, entries = [np.repeat(lists, np.diff(arrays.start))], [arrays.entry]
    for place in np.flatnonzero(arrays.late_key != EMPTY):
        link = int(arrays.late_head[place])
        while link != END:
            codes.append(arrays.late_key[place : place + 1])
            entries.append(arrays.late_entry[link : link + 1])
            link = int(arrays.late_next[link])
    found = _sorted(np.concatenate(codes), np.concatenate(entries))
    return found, np.unique(found[:, 1] & SLOT).astype(np.int32)


def _sorted(codes: I64, entries: U32) -> I64:
    pairs = np.stack([codes, entries.astype(np.int64)], axis=1)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


# --- codes -------------------------------------------------------------------------------------------------------


class Span(NamedTuple):
    """A side of a rectangle in cells, and the part of it that needs no second look."""

    begin: int
    end: int
    inner_begin: int
    inner_end: int


@inlined
def rank(cuts: I64, key: int) -> int:
    """Position of the last cut at or below key, -1 when there is none. O(log cuts)."""
    return bisect_right(cuts, 0, len(cuts), key) - 1


@inlined
def span(cuts: I64, lo: int, hi: int, points: int, may_be_exact: bool) -> Span:
    """Where the keys lo … hi are on one axis: begin, end, and the inner part that holds no other keys.

    The inner part is empty (and at the end) where nothing is exact, or may be. An end before the begin means off the
    grid. On grid points, an extent of 0 becomes 1: the loops of Fig. 2 would cut it into no VCR at all.
    """
    begin, end = rank(cuts, lo), rank(cuts, hi)
    if not points:
        exact = hi == GREATEST if end + 1 == len(cuts) else at(cuts, end + 1) - 1 == hi
        end += 1
    else:
        exact = end >= 0 and at(cuts, end) == hi
        end += not exact
        if begin < 0 or end >= len(cuts):
            return Span(0, -1, 0, 0)
        if begin == end:
            begin -= end + 1 == len(cuts)
            return Span(begin, begin + 1, begin + 1, begin + 1)
    inner_begin, inner_end = begin + (at(cuts, begin) != lo), end - (not exact)
    if inner_begin >= inner_end or not may_be_exact:
        return Span(begin, end, end, end)
    return Span(begin, end, inner_begin, inner_end)


@inlined
def part(position: int, side: Span) -> tuple[int, int, bool]:
    """The part of a span that the position is in (border, inner or border), and whether it is a border.

    Borders are cut by themselves, so that only pieces that reach over what was asked have to be verified.
    """
    if side.inner_begin >= side.inner_end:
        return side.begin, side.end, True
    if position < side.inner_begin:
        return side.begin, side.inner_begin, True
    if position < side.inner_end:
        return side.inner_begin, side.inner_end, False
    return side.inner_end, side.end, True


@inlined
def count_span(side: Span, k: int, overlapped: bool) -> int:
    """How many pieces a span has."""
    begin, end, inner_begin, inner_end = side
    if inner_begin >= inner_end:
        return count_pieces(end - begin, k, overlapped)
    return (inner_begin - begin) + count_pieces(inner_end - inner_begin, k, overlapped) + (end - inner_end)


@inlined
def keyed(table: SegmentArrays, clause: int, attr: int) -> int:
    """The clause's constraint on the attribute if it can be a route, which one that accepts NULL never is."""
    for constraint in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
        if at(table.attr, constraint) == attr:
            return UNKEYED if at(table.accepts_null, constraint) else constraint
    return UNKEYED


@inlined
def clause_codes(table: SegmentArrays, grid: VcrGrid, clause: int, filled: int, base: int, out: I64) -> int:
    """Write the codes of a clause to out[base + filled …], unless `out` has no room at all.

    Returns how many codes of the slot there are by then, or RESIDUAL.
    """
    info = grid.info
    points, over, two = at(info, vc.MODE), at(info, vc.IS_OVERLAPPED) != 0, at(info, vc.ATTR_Y) != vc.NO_ATTRIBUTE
    on_x = keyed(table, clause, at(info, vc.ATTR_X))
    on_y = keyed(table, clause, at(info, vc.ATTR_Y)) if two else on_x
    if on_x == UNKEYED or on_y == UNKEYED:
        return RESIDUAL
    first_x, last_x = at(table.interval_start, on_x), at(table.interval_start, on_x + 1) - 1
    first_y, last_y = 0, 0
    if two:
        first_y, last_y = at(table.interval_start, on_y), at(table.interval_start, on_y + 1) - 1
    if last_x < first_x or last_y < first_y:
        return filled  # a constraint that nothing satisfies
    hull = (last_x - first_x + 1) * (last_y - first_y + 1) > MOST_RECTANGLES
    more = at(table.constraint_start, clause + 1) - at(table.constraint_start, clause) > 1 + two
    exact = not (more or hull)
    for x in range(first_x, first_x + 1 if hull else last_x + 1):
        across = span(grid.cut_x, table.lo[x], table.hi[last_x if hull else x], points, exact)
        for y in range(first_y, first_y + 1 if hull else last_y + 1):
            up = Span(0, 1, 0 if exact else 1, 1)
            if two:
                up = span(grid.cut_y, table.lo[y], table.hi[last_y if hull else y], points, exact)
            if across.end < across.begin or up.end < up.begin:
                return RESIDUAL
            count = count_span(across, at(info, vc.KX), over) * count_span(up, at(info, vc.KY), over)
            if filled + count > MOST_PIECES:
                return RESIDUAL
            if len(out):
                rectangle_codes(info, across, up, base + filled, out)
            filled += count
    return filled


@inlined
def rectangle_codes(info: I64, across: Span, up: Span, position: int, out: I64) -> None:
    """Write the codes of one rectangle's VCRs, strip by strip from the bottom, as Fig. 2 does."""
    over = at(info, vc.IS_OVERLAPPED) != 0
    y = up.begin
    while y < up.end:
        begin, end, border = part(y, up)
        row, tall = piece(y, begin, end, at(info, vc.KY), over)
        strip = at(info, vc.SHIFT) + row * at(info, vc.STEP_Y) + tall * at(info, vc.STEP_J)
        x = across.begin
        while x < across.end:
            begin, end, maybe = part(x, across)
            column, broad = piece(x, begin, end, at(info, vc.KX), over)
            vcr = strip + column * at(info, vc.STEP_X) + broad * at(info, vc.STEP_I)
            out[position] = vcr << 1 | (maybe or border)
            position += 1
            x = column + (1 << broad)
        y = row + (1 << tall)


@kernel
def codes_of(table: SegmentArrays, grid: VcrGrid, slots: I32) -> tuple[I64, I64, U32]:
    """The number of pieces of each slot, or RESIDUAL; and the codes of all others, slot by slot, and their entries.

    Codes are counted first, and then written, unless there are too many.
    """
    counts, codes, entries = np.zeros(len(slots), np.int64), np.empty(0, np.int64), np.empty(0, np.uint32)
    for written in range(2):
        filled = 0
        for n in range(len(slots)):
            if written and counts[n] <= 0:
                continue
            count = 0
            for clause in range(table.clause_start[slots[n]], table.clause_start[slots[n] + 1]):
                count = clause_codes(table, grid, clause, count, filled, codes)
                if count == RESIDUAL:
                    break
            counts[n] = count
            for position in range(filled, filled + count if written else filled):
                maybe = codes[position] & 1
                entries[position] = np.uint32(int(slots[n]) | (int(MAYBE) if maybe else 0))
                codes[position] >>= 1
            filled += max(count, 0)
        if filled == 0 or filled >= MOST_ENTRIES:
            break
        if not written:
            codes, entries = np.empty(filled, np.int64), np.empty(filled, np.uint32)
    return counts, codes, entries


# --- stores ------------------------------------------------------------------------------------------------------


@inlined
def home(key: int, size: int) -> int:
    """Where the search for an ID begins in a table of fewer than 2^32 places.

    IDs of activated VCRs come in clusters, so they are randomised first. Products of 32-bit halves: nothing wraps.
    """
    low, high = np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)
    mixed = (low * np.uint64(0x9E3779B1)) ^ (high * np.uint64(0x85EBCA77))
    mixed = (mixed ^ (mixed >> np.uint64(29))) & np.uint64(0xFFFFFFFF)
    mixed = (mixed * np.uint64(0xC2B2AE3D)) >> np.uint64(15) & np.uint64(0xFFFFFFFF)
    return np.int64((mixed * np.uint64(size)) >> np.uint64(32))  # type: ignore[return-value]


@inlined
def find(keys: I64, key: int) -> int:
    """The place of an ID in an open-addressed table, or the free place where it would go. There is always one."""
    place = home(key, len(keys))
    while at(keys, place) != key and at(keys, place) != EMPTY:
        place += 1
        if place == len(keys):
            place = 0
    return place


@kernel
def add_keys(codes: I64, keys: I64, most: int) -> int:
    """Put the IDs into a table of keys; returns how many are new, or stops beyond `most` of them."""
    new = 0
    for code in codes:
        place = find(keys, code)
        if keys[place] == EMPTY:
            if new == most:
                return new + 1
            keys[place] = code
            new += 1
    return new


@kernel
def fill_lists(codes: I64, entries: U32, keys: I64, lists: int) -> tuple[I32, U32]:
    """Gather entries list by list, keeping their order: (where each list begins, entries).

    Lists are those of all VCRs, or of the places of `keys` when it has any.
    """
    hashed = len(keys) > 0
    start, out = np.zeros(lists + 2, np.int32), np.empty(len(codes), np.uint32)
    for code in codes:
        start[(find(keys, code) if hashed else code) + 2] += 1
    for i in range(1, len(start)):
        start[i] += start[i - 1]
    for position in range(len(codes)):
        code = codes[position]
        number = (find(keys, code) if hashed else code) + 1
        out[start[number]] = entries[position]
        start[number] += 1
    return start[:-1], out


@kernel
def chained(key: I64, head: I32, following: I32, codes: I64, used: int) -> tuple[I64, I32, I32, int]:
    """The delta's table with new entries at the heads of the chains of their IDs: keys, heads, links, used places.

    It is copied, into a larger one unless it stays at most half full.
    """
    size, filled = LEAST_HASH + 4 * (used + len(codes)), len(following)
    keys, heads = key.copy(), head.copy()
    if 2 * (used + len(codes)) >= len(key):
        keys, heads = np.full(size, EMPTY, np.int64), np.full(size, END, np.int32)
        for place in range(len(key)):
            if key[place] != EMPTY:
                new = find(keys, key[place])
                keys[new], heads[new] = key[place], head[place]
    links = np.empty(filled + len(codes), np.int32)
    links[:filled] = following
    for n in range(len(codes)):
        place = find(keys, codes[n])
        if keys[place] == EMPTY:
            keys[place] = codes[n]
            used += 1
        links[filled + n] = heads[place]
        heads[place] = filled + n
    return keys, heads, links, used


@kernel
def bounds_of(table: SegmentArrays, grid: VcrGrid, slots: int) -> I64:
    """For each slot the four keys lo_x, hi_x, lo_y, hi_y, if they are all it asks; otherwise an empty x."""
    two, out = at(grid.info, vc.ATTR_Y) != vc.NO_ATTRIBUTE, np.empty(4 * slots, np.int64)
    for slot in range(slots):
        out[4 * slot], out[4 * slot + 1], out[4 * slot + 2], out[4 * slot + 3] = GREATEST, LEAST, LEAST, GREATEST
        clause = at(table.clause_start, slot)
        if at(table.clause_start, slot + 1) - clause != 1:
            continue
        if at(table.constraint_start, clause + 1) - at(table.constraint_start, clause) != 1 + two:
            continue
        on_x = keyed(table, clause, at(grid.info, vc.ATTR_X))
        on_y = keyed(table, clause, at(grid.info, vc.ATTR_Y)) if two else on_x
        if on_x == UNKEYED or on_y == UNKEYED:
            continue
        x, y = at(table.interval_start, on_x), at(table.interval_start, on_y)
        if at(table.interval_start, on_x + 1) != x + 1 or at(table.interval_start, on_y + 1) != y + 1:
            continue
        out[4 * slot], out[4 * slot + 1] = at(table.lo, x), at(table.hi, x)
        if two:
            out[4 * slot + 2], out[4 * slot + 3] = at(table.lo, y), at(table.hi, y)
    return out
