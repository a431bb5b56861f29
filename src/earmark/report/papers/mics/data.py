"""What the experiments of MICS have in common: boxes of cells, their ranges, and the rows that a table keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from earmark.cover.audit import tops
from earmark.cover.ranges.subsumption import RangeBatch
from earmark.cover.ranges.table import Ranges, RangeTable
from earmark.curves import hilbert
from earmark.curves.space import Space, space_of
from earmark.flat.arrays import I64
from earmark.report import oracles
from earmark.report.rivals.linear_boxes import LinearBoxes
from earmark.workload.mics import CELLS, mics
from earmark.workload.rectangles import table_of

BITS = 8
EXACT_BITS = 9
"""256 cells of one value each, and one for NULL."""
DISTRIBUTIONS = ("uniform", "zipf")
DIMENSIONS = (2, 3, 4)
ZIPF = "The paper does not print Zipf's exponent; ours is 1."


class Boxes(NamedTuple):
    """Subscriptions as boxes of cells."""

    low: I64
    high: I64

    @classmethod
    def drawn(cls, distribution: str, count: int, dimensions: int, size: int, seed: int) -> Boxes:
        """Draw subscriptions; those of the paper are whole cells."""
        made = mics(distribution, count, 1, attributes=dimensions, sizes=size, seed=seed)
        return cls(made.sub_lo, made.sub_hi)

    def part(self, begin: int, end: int) -> Boxes:
        """Return some of them."""
        return Boxes(self.low[begin:end], self.high[begin:end])

    def and_then(self, others: Boxes) -> Boxes:
        """Return them and others."""
        return Boxes(np.concatenate([self.low, others.low]), np.concatenate([self.high, others.high]))

    def ranges(self) -> RangeBatch:
        """Return them as ranges of the curve."""
        return RangeBatch(*hilbert.ranges(self.low, self.high, BITS))

    def rows(self) -> LinearBoxes:
        """Return them as rows for the linear algorithms."""
        rows = LinearBoxes(self.low.shape[1])
        rows.add(self.low, self.high)
        return rows

    def scan(self) -> oracles.Scan:
        """Return them as what exact answers come from."""
        return oracles.Scan(self.low, self.high)

    def uncovered(self) -> Boxes:
        """Return those that no other covers: what Algorithm 1 keeps, and so what its linear rivals search."""
        slots = np.arange(len(self.low))
        kept = tops(table_of(self.low, self.high), slots) == slots
        return Boxes(self.low[kept], self.high[kept])


def filled(ranges: RangeBatch) -> RangeTable:
    """Return a table of subscriptions, given as ranges."""
    table = RangeTable()
    table.subscribe(Ranges(ranges.first, ranges.last))
    return table


def whole_cells(axes: int) -> Space:
    """Return the paper's grid on the first attributes: each of 256 values is a cell."""
    return whole_cells_of(range(axes))


def whole_cells_of(attributes: Sequence[int]) -> Space:
    """Return the paper's grid on some attributes."""
    cuts = [np.arange(1, CELLS, dtype=np.int64)] * len(attributes)
    return space_of(np.array(attributes, np.int32), cuts, EXACT_BITS)
