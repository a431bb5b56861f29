"""Fractions were cut off, texts taken for numbers, and what could not be converted raised what numpy raises."""

from __future__ import annotations

from typing import Any

import pytest

from earmark import Matcher
from earmark.cover import RangeSummary, subsumed
from earmark.cover.ranges.table import RangeTable
from earmark.curves import hilbert
from earmark.errors import EarmarkError


@pytest.mark.parametrize(
    "ranges", [[(1.5, 2)], [(1, 2, 3, 4)], [("1", "2")], [(0, 2**64)], "ab", [(float("nan"), 1)], 5, [(1,), (2, 3)]]
)
def test_ranges(ranges: Any) -> None:
    with pytest.raises(EarmarkError, match="expected ranges as pairs of integers"):
        RangeTable().subscribe(ranges)


@pytest.mark.parametrize("gap", [1.5, True, "a", None, -1, 2**63])
def test_gaps(gap: Any) -> None:
    with pytest.raises(EarmarkError, match=r"an integer from 0 to \d+ for gap"):
        RangeTable(gap)


@pytest.mark.parametrize("work", [2**63, "3", None, 1.5, True, 0])
def test_work(work: Any) -> None:
    matcher = Matcher()
    matcher.add("a", "x > 3")
    with pytest.raises(EarmarkError, match=r"an integer from 1 to \d+ for work"):
        subsumed(matcher, "a", work)


@pytest.mark.parametrize("cells", [[[0.5, 1.9]], [[float("nan"), 0]], [[1, 2], [3]], [["1", "2"]], [[0, 2**64]]])
def test_cells(cells: Any) -> None:
    with pytest.raises(EarmarkError, match="expected rows of coordinates, integers"):
        hilbert.numbers(cells, 3)


@pytest.mark.parametrize("numbers", [[[1, 2]], [2**64], [1.5]])
def test_curve_numbers(numbers: Any) -> None:
    with pytest.raises(EarmarkError, match="expected a row of numbers, integers"):
        hilbert.cells(numbers, 2, 3)


def test_bits() -> None:
    with pytest.raises(EarmarkError, match=r"2 dimensions of 2\.5 bits"):
        hilbert.numbers([[0, 1]], 2.5)  # type: ignore[arg-type, list-item]


@pytest.mark.parametrize("table", [None, 5, "file"])
def test_summaries(table: Any) -> None:
    with pytest.raises(EarmarkError, match="expected a range summary as an Arrow table"):
        RangeSummary.from_arrow(table)
