"""Virtual construct rectangles: their IDs, how a rectangle is cut into them, and which of them cover a point.

vcr.txt, sections 2.1 to 2.3. Every corner (x, y) of a grid has (kx + 1)(ky + 1) VCRs, of width 1, 2, 4 … Lx =
2^kx and height 1, 2, 4 … Ly = 2^ky. None of them is stored: a VCR is a number.

**Decomposition.** Greedy on each axis by itself, so a decomposition is the product of two lists of pieces:

    simple (SD)       the largest side that fits what is left            11 -> 4 + 4 + 2 + 1
    overlapped (OD)   the largest side that fits, again and again; the   11 -> 4 + 4 + 4, the last one moved back
                      last is moved back until it fits

**IDs.** Linear in corner and shape: ID = x·Sx + y·Sy + i·Si + j·Sj for width 2^i and height 2^j. Two numberings:

    corner   Eq. (1): Sx = B, Sy = B·Rx, Si = 1, Sj = kx + 1          all shapes of a corner are neighbours
    shape    Sx = 1, Si = Rx, Sj = Rx·(kx + 1), Sy = Rx·B             all corners of a row and shape are neighbours

**Covering set.** Which VCRs cover a point depends on the point by a shift only. So the differences from the ID of
the *pivot*, (a − Lx, b − Ly, 1, 1), are one table for all points (Theorem 2), whatever the linear numbering.

    one axis, L = 4, point a         width 4, starts a-4 … a        closed: 5 + 3 + 2 = 10 = 2L + k
    closed on grid points (paper)    width 2, starts a-2 … a        (a VCR of width 2 holds 3 grid points)
                                     width 1, starts a-1 … a
    open: a is between two grid    width 4, starts a-3 … a        4 + 2 + 1 = 7 = 2L - 1
    points, or coordinates are cells width 2, starts a-1 … a        (a VCR of width 2 holds 2 cells)
                                     width 1, start  a

Neighbouring differences are kept as *runs* (first, last): where the lists of neighbouring IDs are one behind the
other, a run is read as one list. With the corner numbering (2Lx)(2Ly) VCRs make about half as many runs; with the
shape numbering they make (kx + 1)(2Ly − 1).

Complexity: a decomposition, O(pieces); the tables, O(Lx Ly), once an index.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.flat.arrays import I64
from earmark.jit import inlined

CORNER, SHAPE = "corner", "shape"
SIMPLE, OVERLAPPED = "simple", "overlapped"


class Vcr(NamedTuple):
    """A rectangle by its bottom-left corner; a VCR when both sides are powers of two."""

    x: int
    y: int
    width: int
    height: int


class Steps(NamedTuple):
    """How much an ID grows with the corner (x, y) and the shape (i, j)."""

    x: int
    y: int
    i: int
    j: int


class Runs(NamedTuple):
    """Ascending differences from the pivot's ID, joined where they are neighbours: first[r] … last[r], inclusive."""

    first: I64
    last: I64


def steps(numbering: str, wide: int, kx: int, ky: int) -> Steps:
    """The numbering of the VCRs of a grid with `wide` corners in a row."""
    shapes = (kx + 1) * (ky + 1)
    if numbering == CORNER:
        return Steps(shapes, shapes * wide, 1, kx + 1)
    return Steps(1, shapes * wide, wide, wide * (kx + 1))


def vcr_id(vcr: Vcr, wide: int, longest: tuple[int, int], numbering: str = CORNER) -> int:
    """The ID of a VCR on a grid with `wide` corners in a row and sides up to `longest`. Eq. (1) for CORNER."""
    step = steps(numbering, wide, exponent(longest[0]), exponent(longest[1]))
    return vcr.x * step.x + vcr.y * step.y + exponent(vcr.width) * step.i + exponent(vcr.height) * step.j


def exponent(side: int) -> int:
    """k of a side 2^k."""
    return side.bit_length() - 1


def decompose(rectangle: Vcr, longest: tuple[int, int], decomposition: str = SIMPLE) -> list[Vcr]:
    """The VCRs of a rectangle, strip by strip from the bottom (Fig. 2). None where a side is 0."""
    x, y, width, height = rectangle
    columns = axis_pieces(x, width, longest[0], decomposition)
    rows = axis_pieces(y, height, longest[1], decomposition)
    return [Vcr(left, bottom, wide, high) for bottom, high in rows for left, wide in columns]


def axis_pieces(begin: int, extent: int, longest: int, decomposition: str) -> list[tuple[int, int]]:
    """(start, side) of the pieces on one axis."""
    k, overlapped, end = exponent(longest), decomposition == OVERLAPPED, begin + extent
    pieces, position = [], begin
    while position < end:
        start, size = piece(position, begin, end, k, overlapped)
        pieces.append((start, 1 << size))
        position = start + (1 << size)
    return pieces


@inlined
def largest(extent: int, k: int) -> int:
    """The exponent of the largest side, up to 2^k, that fits into a positive extent."""
    size = 0
    while size < k and (2 << size) <= extent:
        size += 1
    return size


@inlined
def piece(position: int, begin: int, end: int, k: int, overlapped: bool) -> tuple[int, int]:
    """Start and exponent of the piece that covers what is left from `position` on of the extent begin … end."""
    if not overlapped:
        return position, largest(end - position, k)
    size = largest(end - begin, k)
    return min(position, end - (1 << size)), size


@inlined
def count_pieces(extent: int, k: int, overlapped: bool) -> int:
    """How many pieces an extent has."""
    if overlapped:
        size = largest(extent, k)
        return (extent + (1 << size) - 1) >> size
    pieces, rest = extent >> k, extent & ((1 << k) - 1)
    while rest:
        pieces += 1
        rest &= rest - 1
    return pieces


def distances(step: Steps, kx: int, ky: int, open_x: bool = False, open_y: bool = False) -> I64:
    """ID differences between the VCRs that cover a point and its pivot, ascending. `open`: see above."""
    axes = []
    for k, is_open, along, shape in ((kx, open_x, step.x, step.i), (ky, open_y, step.y, step.j)):
        # A start that is `back` before the point is longest - back after the pivot.
        back = [np.arange((1 << size) + (not is_open), dtype=np.int64) for size in range(k + 1)]
        axes.append(np.concatenate([((1 << k) - back[size]) * along + size * shape for size in range(k + 1)]))
    return np.sort((axes[0][:, None] + axes[1]).ravel())


def runs_of(differences: I64) -> Runs:
    """The same, joined where they are neighbours."""
    border = np.flatnonzero(np.diff(differences) != 1)
    first = differences[np.concatenate([[0], border + 1])]
    last = differences[np.concatenate([border, [len(differences) - 1]])]
    return Runs(first, last)


def drawing(rectangle: Vcr, pieces: list[Vcr]) -> str:
    """Cells of the rectangle, top row first, with the letters of the VCRs they are in; `*` where there are several."""
    rows = []
    for y in reversed(range(rectangle.y, rectangle.y + rectangle.height)):
        row = ""
        for x in range(rectangle.x, rectangle.x + rectangle.width):
            inside = [p for p in pieces if p.x <= x < p.x + p.width and p.y <= y < p.y + p.height]
            row += "." if not inside else chr(ord("A") + pieces.index(inside[0])) if len(inside) == 1 else "*"
        rows.append(" ".join(row))
    return "\n".join(rows)
