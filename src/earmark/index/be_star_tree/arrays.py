"""The flat arrays of a BE*-Tree: what kernels read and change, what files store. Other modules import it as `be`.

A **bucket** is a place in a c-directory and the c-node that belongs to it (the paper draws the two apart; each bucket
has exactly one c-node, so one record serves both). Its c-node has an l-node (a run of entries) and a p-directory (a run
of p-nodes). Bucket 0 is the root c-node, which is in no c-directory; bucket 1 holds the clauses that can never match.

    p-node a, c-directory over a:            bucket 2  [3, 90]   home of what spans its children (its own box: [20, 60])
                                              /         \\
    bucket 3  [3, 40]  l-node: 2 entries                bucket 4  [55, 90]  l-node: 3 entries

    box     4 per bucket   3 90 20 60 | 3 40 3 40 | 55 90 55 90     whole and own c-node, on the active dimension
    link    8 per bucket   attribute, left, right, first entry, entries, first p-node, p-nodes, parent
    more    8 per bucket   what searches do not need: the p-node it belongs to, room, limit, clauses below, level, ...
    rim     2 per bucket and inactive dimension: its box on the attributes of the p-nodes above
    first, top, peak     what bounds scores (`bounds.py`)
    pnode   4 per p-node   attribute, root bucket of its c-directory, bucket whose p-directory lists it
    pdir_attr, pdir_node the p-directories: runs that ascend by attribute
    sign, clause, record, most     an entry: signature of its attributes, clause, its record, sum of its weights
    word    records: a clause's attributes and bounds, packed, so that verifying it reads one place
    where, place, slot   by clause: its bucket, its entry, its slot
    rate, apart          by attribute: expected share of false candidates, and how far siblings stay apart

Arrays have spare room at the end; `head` says how much is used, and holds the lists of free nodes and runs.

A record is n + 1 lanes of 16 bits (n, then the attributes), padded to words, then n pairs (lo, hi).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.flat.arrays import F32, F64, I32, I64, U64
from earmark.index.stored import element_types

NONE = -1
"""No bucket, p-node, run, record or next element of a list."""
ROOT = 0
"""The root c-node."""
NEVER = 1
"""The bucket of clauses that no event matches (a constraint of theirs is empty)."""
LOWEST, HIGHEST = -(2**63), 2**63 - 1
"""The ends of the key line. An empty box is [HIGHEST, LOWEST]."""
LEVELS = 15
"""Most p-nodes above an l-node; deeper partitioning would gain nothing and cost one box per dimension."""
BINS = 64
"""Bits of a signature, and bins of weight maxima: attribute a uses bit and bin a % 64."""
LONGEST_RECORD = 64
"""Most constraints of a clause that gets a record; longer clauses are verified in the table."""
UNLIMITED = 2**31 - 1
"""The limit of an l-node that is not split, or not before all its clauses are there."""
LANE_ATTRIBUTES = 1 << 16
"""Attributes with a number below this fit a lane of a record."""

# box: the whole bucket, then its own c-node, on the active dimension.
LO, HI, OWN_LO, OWN_HI = 0, 1, 2, 3
BOX = 4
# link
ATTR, LEFT, RIGHT, FIRST, COUNT, PDIR, WIDTH, PARENT = range(8)
LINK = 8
# more: the p-node of its c-directory, room in its runs, entries that its l-node may have, clauses in the bucket,
# inactive boxes, level (p-nodes above), clauses that came or went since it was built.
PNODE, ROOM, PDIR_ROOM, LIMIT, BELOW, RIM, LEVEL, CHANGED = range(8)
MORE = 8
# pnode
PATTR, PROOT, POWNER = 0, 1, 2
PART = 4
# top: the greatest static score and sum of weights, of all clauses of the bucket, then of its l-node.
STATIC, SUM, OWN_STATIC, OWN_SUM = 0, 1, 2, 3
TOP = 4

# head: how much of each array is used, free lists, and settings. LEARNED is the number of events that rates come from;
# UNPACKED counts the clauses inserted since entries and records were last laid out in the order of the tree.
BUCKETS, FREE_BUCKET, PNODES, FREE_PNODE, ENTRIES, PDIRS, RIMS, WORDS = range(8)
CLAUSES, CAPACITY, RIGID, APPROXIMATE, LEAST, LONGEST, LIVE_BUCKETS, LIVE_PNODES = range(8, 16)
FOLLOWS, HISTOGRAM, LIVE_WORDS, LOOSE, LEARNED, UNPACKED = range(16, 22)
CLASSES = 60
FREE_RUNS = 24
FREE_PDIRS = FREE_RUNS + CLASSES
FREE_RIMS = FREE_PDIRS + CLASSES
FREE_WORDS = FREE_RIMS + LEVELS + 1
HEAD = FREE_WORDS + LONGEST_RECORD + 1
SETTINGS = (CAPACITY, LEAST, RIGID, APPROXIMATE, FOLLOWS, HISTOGRAM)
"""Fields of `head` that the options of a tree set."""
# knob
ALPHA, BETA, EXTENSION = 0, 1, 2
KNOB = 3


class TreeArrays(NamedTuple):
    """All state of a BE*-Tree. Drawn in the module's docstring."""

    head: I64
    knob: F64
    box: I64
    link: I32
    more: I32
    rim: I64
    first: I64
    top: F32
    peak: F32
    pnode: I32
    loss: F64
    pdir_attr: I32
    pdir_node: I32
    sign: U64
    clause: I32
    record: I32
    most: F32
    word: I64
    where: I32
    place: I32
    slot: I32
    rate: F64
    apart: F64


GROUPS: dict[str, tuple[int, dict[str, int]]] = {
    "buckets": (BUCKETS, {"box": BOX, "link": LINK, "more": MORE, "first": 2, "top": TOP, "peak": 2 * BINS}),
    "pnodes": (PNODES, {"pnode": PART, "loss": 1}),
    "entries": (ENTRIES, {"sign": 1, "clause": 1, "record": 1, "most": 1}),
    "pdirs": (PDIRS, {"pdir_attr": 1, "pdir_node": 1}),
    "rims": (RIMS, {"rim": 1}),
    "words": (WORDS, {"word": 1}),
}
"""Arrays that grow together: the field of `head` that says how much is used, and the elements per unit of each."""


def empty_tree(knobs: list[float], settings: Mapping[int, int], attributes: int, weighted: bool) -> TreeArrays:
    """Make a tree with an empty root and no clauses; its knobs are ALPHA, BETA and EXTENSION."""
    head = np.zeros(HEAD, np.int64)
    head[[FREE_BUCKET, FREE_PNODE]] = NONE
    head[FREE_RUNS:] = NONE
    head[list(settings)] = list(settings.values())
    arrays = {name: np.empty(0, kind) for name, kind in element_types(TreeArrays).items()}
    tree = TreeArrays(**{**arrays, "head": head, "knob": np.array(knobs, np.float64)})
    tree = with_room(tree, buckets=4, weighted=weighted)
    for bucket in (ROOT, NEVER):
        tree.box[bucket * BOX : (bucket + 1) * BOX] = (HIGHEST, LOWEST, HIGHEST, LOWEST)
        tree.link[bucket * LINK : (bucket + 1) * LINK] = (NONE, NONE, NONE, 0, 0, 0, 0, NONE)
        tree.more[bucket * MORE : (bucket + 1) * MORE] = (NONE, 0, 0, head[CAPACITY], 0, NONE, 0, 0)
        tree.first[bucket * 2 : bucket * 2 + 2] = HIGHEST
        tree.top[bucket * TOP : (bucket + 1) * TOP] = (-np.inf, 0, -np.inf, 0)
    head[BUCKETS] = head[LIVE_BUCKETS] = 2
    tree.more[NEVER * MORE + LIMIT] = UNLIMITED
    return with_attributes(tree, attributes)


def with_room(tree: TreeArrays, *, weighted: bool = False, **units: int) -> TreeArrays:
    """Make room for more `buckets`, `pnodes`, `entries` and so on (see `GROUPS`); arrays grow by at least a half."""
    grown: dict[str, NDArray[Any]] = {}
    weighted = weighted or bool(len(tree.peak))
    for group, extra in units.items():
        used, widths = GROUPS[group]
        wanted = int(tree.head[used]) + extra
        lead = next(iter(widths))
        have = len(getattr(tree, lead)) // widths[lead]
        if wanted <= have:
            continue
        wanted = max(wanted, have + have // 2)
        for name, width in widths.items():
            if name != "peak" or weighted:
                grown[name] = resized(getattr(tree, name), wanted * width)
    return tree._replace(**grown) if grown else tree


def with_attributes(tree: TreeArrays, attributes: int) -> TreeArrays:
    """Make room for attributes up to this number."""
    return _longer(tree, ("rate", "apart"), attributes)


def with_clauses(tree: TreeArrays, clauses: int) -> TreeArrays:
    """Make room for clauses up to this number; the new ones are not in the tree yet."""
    return _longer(tree, ("where", "place", "slot"), clauses, NONE)


def _longer(tree: TreeArrays, names: tuple[str, ...], length: int, fill: int = 0) -> TreeArrays:
    """Make arrays at least so long, by at least a half."""
    have = len(getattr(tree, names[0]))
    size = max(length, have + have // 2)
    return tree if length <= have else tree._replace(**{n: resized(getattr(tree, n), size, fill) for n in names})


def resized(array: NDArray[Any], length: int, fill: int = 0) -> NDArray[Any]:
    """Copy into a longer array, whose end is `fill`."""
    copy = np.full(length, fill, array.dtype)
    copy[: len(array)] = array
    return copy


def trimmed(tree: TreeArrays) -> TreeArrays:
    """Copy the tree without its spare room."""
    ends = {name: int(tree.head[used]) * width for used, widths in GROUPS.values() for name, width in widths.items()}
    cut = {name: getattr(tree, name)[:end].copy() for name, end in ends.items() if end < len(getattr(tree, name))}
    return tree._replace(**cut)


def copied(tree: TreeArrays) -> TreeArrays:
    """Copy all arrays; the copies are writable."""
    return TreeArrays._make(array.copy() for array in tree)
