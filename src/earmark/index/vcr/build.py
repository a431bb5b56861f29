"""Whole indexes from slots, and indexes that grow: what ties plan, store and arrays together.

`built` chooses a grid and fills the lists in bulk. `extended` adds slots to the delta of an index, on the same grid; it
declines when the delta would become so large that building again is better. Nothing is changed in place: every array
that differs is a new one.

Invariant and complexity: see the package. `check_lists` recomputes every decomposition and compares.
"""

from __future__ import annotations

import numpy as np

from earmark.errors import EarmarkError, require
from earmark.flat import bits
from earmark.flat.arrays import I32, I64, U64, frozen, read_only
from earmark.index.marks import MAYBE, SLOT
from earmark.index.vcr.arrays import (
    ACTIVATED,
    DECOMPOSITIONS,
    EMPTY,
    END,
    FREE,
    GONE_BEFORE,
    HASHED,
    LATE_KEYS,
    LATE_SLOTS,
    MODES,
    MOST_SHAPE,
    NUMBERINGS,
    PLACED,
    SLOTS,
    STORE,
    STORES,
    U32,
    VCRS,
    VcrArrays,
    VcrGrid,
    VcrOptions,
    distance_tables,
    grid_of,
)
from earmark.index.vcr.plan import grid_for
from earmark.index.vcr.rectangles import exponent
from earmark.index.vcr.store import (
    RESIDUAL,
    add_keys,
    add_to_chains,
    count_activated,
    count_codes,
    fill_bounds,
    fill_lists,
    move_chains,
    write_codes,
)
from earmark.segment.arrays import SegmentArrays

FEWEST_LATE = 1 << 14
LATE_SHARE = 1 / 8
"""The delta is merged when it has this share of all entries, and FEWEST_LATE at least."""
LEAST_HASH, MOST_HASH = 8, 1 << 31
MOST_ENTRIES = 1 << 31


def checked_options(
    attributes: tuple[int, ...] | None,
    longest: tuple[int, int] | None,
    cells: tuple[int, int] | None,
    mode: str,
    decomposition: str | None,
    store: str | None,
    numbering: str | None,
    hash_size: int | None,
) -> VcrOptions:
    """The options as numbers; EarmarkError says which makes no sense."""
    x, y = _pair_of("attributes", (*attributes, FREE)[:2] if attributes else None, FREE)
    if attributes is not None and (len(attributes) not in (1, 2) or x < 0 or x == y):
        raise EarmarkError(f"expected one or two different attribute numbers, got {attributes!r}")
    sides = _pair_of("longest", longest, 1)
    if longest is not None and (any(side & (side - 1) for side in sides) or sides[0] * sides[1] > 1 << MOST_SHAPE):
        raise EarmarkError(
            f"longest sides are powers of two, their product at most {1 << MOST_SHAPE:,}, not {longest!r}."
        )
    columns, rows = _pair_of("cells", cells, 2)
    if hash_size is not None and not LEAST_HASH <= hash_size < MOST_HASH:
        raise EarmarkError(f"expected a hash_size from {LEAST_HASH} to {MOST_HASH - 1:,}, got {hash_size}")
    return VcrOptions(
        x,
        y,
        exponent(sides[0]) if longest else FREE,
        exponent(sides[1]) if longest else FREE,
        columns,
        rows,
        _number("mode", mode, MODES),
        FREE if decomposition is None else _number("decomposition", decomposition, DECOMPOSITIONS),
        FREE if store is None else _number("store", store, STORES),
        FREE if numbering is None else _number("numbering", numbering, NUMBERINGS),
        FREE if hash_size is None else hash_size,
    )


def _pair_of(name: str, given: tuple[int, ...] | None, least: int) -> tuple[int, int]:
    if given is None:
        return FREE, FREE
    if not (isinstance(given, tuple) and len(given) == 2 and all(isinstance(n, int) and n >= least for n in given)):
        raise EarmarkError(f"expected two whole numbers of at least {least} for {name}, got {given!r}")
    return given[0], given[1]


def _number(name: str, given: str, known: tuple[str, ...]) -> int:
    if given not in known:
        raise EarmarkError(f"expected {' or '.join(map(repr, known))} for {name}, got {given!r}")
    return known.index(given)


def built(table: SegmentArrays, slots: I32, options: VcrOptions) -> VcrArrays:
    """The arrays for these slots of a table."""
    table = SegmentArrays._make(read_only(column) for column in table)
    total = len(table.clause_start) - 1
    grid = grid_for(table, slots, options)
    grid = VcrGrid._make(frozen(column) for column in grid)
    counts, codes, entries = _codes(table, grid, slots)
    info = grid.info.copy()
    key: I64 = np.empty(0, np.int64)
    if info[STORE] == HASHED:
        key = _key_table(codes, options.hash_size)
    lists = len(key) if info[STORE] == HASHED else int(info[VCRS])
    start, entry = np.zeros(lists + 2, np.int32), np.empty(len(codes), np.uint32)
    fill_lists(codes, entries, key, start, entry)
    start = start[:-1]
    info[SLOTS], info[PLACED], info[ACTIVATED] = total, int((counts > 0).sum()), count_activated(start)
    info[GONE_BEFORE] = total - len(slots)
    bounds = np.empty(4 * total if len(entry) and entry.max() >= MAYBE else 0, np.int64)
    fill_bounds(table, grid, bounds)
    run_start, run_first, run_last = distance_tables(info)
    here = bits.from_slots(slots, total)
    return VcrArrays(
        info=frozen(info),
        options=frozen(np.array(options, np.int64)),
        cut_x=grid.cut_x,
        cut_y=grid.cut_y,
        run_start=frozen(run_start),
        run_first=frozen(run_first),
        run_last=frozen(run_last),
        key=frozen(key),
        start=frozen(start),
        entry=frozen(entry),
        bounds=frozen(bounds),
        late_key=frozen(np.empty(0, np.int64)),
        late_head=frozen(np.empty(0, np.int32)),
        late_entry=frozen(np.empty(0, np.uint32)),
        late_next=frozen(np.empty(0, np.int32)),
        residual=bits.from_slots(slots[counts == RESIDUAL], total),
        gone=frozen(bits.all_set(total) & ~here),
    )


def _codes(table: SegmentArrays, grid: VcrGrid, slots: I32) -> tuple[I64, I64, U32]:
    """How many codes each slot has, and all codes (IDs) and entries, slot by slot."""
    counts = np.empty(len(slots), np.int64)
    slots = read_only(slots)
    count_codes(table, grid, slots, counts)
    total = int(counts[counts > 0].sum())
    if total >= MOST_ENTRIES:
        raise EarmarkError(f"{total:,} list entries are more than a VCR index can hold; give it longer sides")
    codes, entries = np.empty(total, np.int64), np.empty(total, np.uint32)
    write_codes(table, grid, slots, counts, codes, entries)
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
    total, known = len(table.clause_start) - 1, int(old.info[SLOTS])
    unknown = np.setdiff1d(np.arange(known, total, dtype=np.int32), slots)
    return bits.set_slots(_longer(old.gone, bits.words_for(total)), unknown)


def _longer(bitmap: U64, words: int) -> U64:
    return np.concatenate([bitmap, np.zeros(words - len(bitmap), np.uint64)])


def extended(table: SegmentArrays, old: VcrArrays, slots: I32) -> VcrArrays | None:
    """The arrays with new slots in the delta, or None when it is time to build again."""
    table = SegmentArrays._make(read_only(column) for column in table)
    if len(slots) > max(FEWEST_LATE, LATE_SHARE * int(old.info[SLOTS])):
        return None
    counts, codes, entries = _codes(table, grid_of(old), slots)
    scanned = slots[counts == RESIDUAL]
    if len(old.late_entry) + len(codes) + len(scanned) > max(FEWEST_LATE, LATE_SHARE * len(old.entry)):
        return None
    info = old.info.copy()
    residual = _longer(old.residual, bits.words_for(len(table.clause_start) - 1))
    gone = gone_with(old, table, slots)
    info[SLOTS] = len(table.clause_start) - 1
    info[GONE_BEFORE] += bits.count(gone) - bits.count(old.gone)
    info[LATE_SLOTS] += int((counts > 0).sum())
    key, head = _room_for(old, len(codes))
    following = np.concatenate([old.late_next, np.empty(len(codes), np.int32)])
    info[LATE_KEYS] += add_to_chains(codes, key, head, following, len(old.late_entry))
    return old._replace(
        info=info,
        late_key=key,
        late_head=head,
        late_entry=np.concatenate([old.late_entry, entries]),
        late_next=following,
        residual=bits.set_slots(residual, scanned),
        gone=gone,
    )


def _room_for(old: VcrArrays, more: int) -> tuple[I64, I32]:
    """The delta's table with room for more IDs, at most half full."""
    needed = int(old.info[LATE_KEYS]) + more
    if 2 * needed < len(old.late_key):
        return old.late_key.copy(), old.late_head.copy()
    size = LEAST_HASH + 4 * needed
    key, head = np.full(size, EMPTY, np.int64), np.full(size, END, np.int32)
    move_chains(old.late_key, old.late_head, key, head)
    return key, head


# --- checking ----------------------------------------------------------------------------------------------------


def check_lists(table: SegmentArrays, arrays: VcrArrays) -> None:
    """Assert that lists and chains hold exactly the decompositions of their slots, and no slot is forgotten."""
    known = np.arange(int(arrays.info[SLOTS]), dtype=np.int32)
    counts, codes, entries = _codes(table, grid_of(arrays), known)
    found, listed = _listed(arrays)
    residual = bits.to_slots(arrays.residual)
    require(not len(np.intersect1d(residual, listed)), "a slot is on the grid and residual")
    require(bool((counts[residual] == RESIDUAL).all()), "a slot is scanned that could be on the grid")
    here = np.ones(len(known), bool)
    here[bits.to_slots(arrays.gone)] = False
    forgotten = np.setdiff1d(known[here], np.union1d(listed, residual))
    require(bool((counts[forgotten] == 0).all()), "a slot is in no list")
    bounds = np.empty_like(arrays.bounds)
    fill_bounds(table, grid_of(arrays), bounds)
    require(np.array_equal(bounds, arrays.bounds), "the bounds are not the slots'")
    mine = np.isin(entries & np.uint32(SLOT), listed)
    wanted = _sorted(codes[mine], entries[mine])
    require(np.array_equal(found, wanted), "the lists are not the decompositions of their slots")
    require(int(arrays.info[PLACED] + arrays.info[LATE_SLOTS]) == len(listed), "slots on the grid are miscounted")


def _listed(arrays: VcrArrays) -> tuple[I64, I32]:
    """(ID, entry) of everything in lists and chains, ascending; and the slots among them."""
    lists = arrays.key if arrays.info[STORE] == HASHED else np.arange(len(arrays.start) - 1)
    codes = [np.repeat(lists, np.diff(arrays.start))]
    entries = [arrays.entry]
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
