"""The exact answers that contenders are compared with, against loops over single boxes and cells."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from earmark.curves import hilbert
from earmark.flat.arrays import I64
from earmark.report import oracles
from earmark.workload.rectangles import commands

SIDE, BITS = 8, 3
Cells = set[tuple[int, ...]]


@pytest.fixture(params=[1, 2, 3])
def boxes(request: pytest.FixtureRequest) -> tuple[I64, I64]:
    ends = np.sort(np.random.default_rng(request.param).integers(0, SIDE, (2, 60, request.param)), axis=0)
    low, high = ends
    return low, np.minimum(high, low + 3)


def cells_of(low: I64, high: I64) -> Cells:
    return set(product(*(range(a, b + 1) for a, b in zip(low.tolist(), high.tolist(), strict=True))))


def all_cells(boxes: tuple[I64, I64]) -> list[Cells]:
    return [cells_of(low, high) for low, high in zip(*boxes, strict=True)]


def is_box(cells: Cells) -> bool:
    corners = np.array(sorted(cells))
    return cells == cells_of(corners.min(axis=0), corners.max(axis=0))


def test_scans(boxes: tuple[I64, I64]) -> None:
    scan, cells = oracles.Scan(*boxes), all_cells(boxes)
    every = range(len(cells))
    for box in every:
        above = [i for i in every if cells[i] > cells[box] or (cells[i] == cells[box] and i < box)]
        below = [i for i in every if cells[i] < cells[box] or (cells[i] == cells[box] and i > box)]
        assert scan.covering(box).tolist() == above
        assert scan.covering(box, of=20).tolist() == [i for i in above if i < 20]
        assert scan.covered(box).tolist() == below
        low, high = boxes[0][box], boxes[1][box]
        assert scan.meeting(low, high).tolist() == [i for i in every if cells[i] & cells[box]]
        partners = [i for i in every if i != box and is_box(cells[i] | cells[box])]
        assert scan.partners(box).tolist() == partners


def test_first_asked_and_taken(boxes: tuple[I64, I64]) -> None:
    cells = all_cells(boxes)
    seen: Cells = set()
    for box, first in enumerate(oracles.first_asked(*boxes, SIDE).tolist()):
        assert first == bool(cells[box] - seen)
        seen |= cells[box]
    old, new = ((boxes[0][part], boxes[1][part]) for part in (slice(30), slice(30, None)))
    known = set().union(*cells[:30])
    taken = oracles.taken(*old, new, SIDE)
    assert taken.tolist() == [one <= known for one in cells[30:]]


@pytest.mark.parametrize("marked", [oracles.MARKED, 0])
def test_ranges_of_the_curve(boxes: tuple[I64, I64], marked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracles, "MARKED", marked)
    first, last = oracles.runs(*boxes, BITS)
    together = set().union(*all_cells(boxes))
    numbers = hilbert.numbers(np.array(sorted(together)), BITS).tolist()
    assert [n for a, b in zip(first.tolist(), last.tolist(), strict=True) for n in range(a, b + 1)] == sorted(numbers)
    assert (first[1:] > last[:-1] + 1).all()
    start, firsts, lasts = oracles.runs_of_each(*boxes, BITS)
    for box in range(len(boxes[0])):
        own = slice(start[box], start[box + 1])
        single = oracles.runs(boxes[0][box : box + 1], boxes[1][box : box + 1], BITS)
        assert (firsts[own].tolist(), lasts[own].tolist()) == (single[0].tolist(), single[1].tolist())


@pytest.mark.parametrize("p", [0.05, 0.4])
def test_what_is_forwarded(p: float) -> None:
    stream = commands(300, 4, p, seed=3, bits=3)  # so few values that some are equal
    scan = oracles.Scan(stream.lo, stream.hi)
    alive: set[int] = set()
    forwarded: set[int] = set()
    for subscribes, slot in zip(stream.subscribes.tolist(), stream.slot.tolist(), strict=True):
        (alive.add if subscribes else alive.discard)(slot)
        forwarded = {s for s in alive if s in forwarded or not alive & set(scan.covering(s).tolist())}
    assert oracles.forwarded(stream) == forwarded
