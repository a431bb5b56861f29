"""Where to split a bucket: the exhaustive and the approximate algorithm of section V-A, and halving.

Every split has one form: left takes the boxes that end at or before `left_end`, right those that begin at or after
`right_begin`, and what spans the gap overlaps:

    left_end = 4, right_begin = 6      |--|   |-----|        left
    1  2  3  4  5  6  7  8  9               |-----|          overlapping: [3, 6]
                                                  |----|     right

Taking the I leftmost by upper end, or the I rightmost by lower end, comes to trying each upper end as `left_end` and
each lower end as `right_begin`. With both orders sorted once, running minima and maxima give the overlapping bucket's
box for each choice in O(1), so the exhaustive algorithm costs O(n log n), not the printed O(n^2 log n).

Ties of overlap and coverage go to the more even split. An empty overlapping bucket overlaps less than a point does:
lengths count keys.
"""

from __future__ import annotations

import numpy as np

from earmark.flat.arrays import I64
from earmark.index.be_star_tree.insert import length, middle_of
from earmark.jit import inlined, kernel


@inlined
def _clear(end: int, begin: int, apart: float) -> bool:
    """Whether a box that begins at `begin` stays clear of one that ends at `end`."""
    return begin > end and (apart <= 0 or float(begin) > float(end) + apart)


@kernel
def find_split(
    lo: I64, hi: I64, alpha: float, apart: float, approximate: bool, rigid: bool, low: int, high: int
) -> tuple[int, int, int, int]:
    """Choose how to split boxes inside [low, high]: (left_end, right_begin, boxes left, boxes right).

    The last two are 0 where the boxes cannot be split.
    """
    n = len(lo)
    least = max(1, int(np.ceil(alpha * n)))
    if low >= high:  # an atomic bucket
        return low, high, 0, 0
    if not rigid and n >= 2:
        by_hi, by_lo = np.argsort(hi), np.argsort(lo)
        if approximate:
            split = _approximate(lo, hi, by_lo, by_hi, apart)
        else:
            split = _exhaustive(lo, hi, by_lo, by_hi, apart, least)
        if split[2] >= least and split[3] >= least:
            return split
    middle = middle_of(low, high)
    left, right, right_begin = 0, 0, high
    for i in range(n):
        if hi[i] <= middle:
            left += 1
        elif _clear(middle, lo[i], apart):
            right += 1
            right_begin = min(right_begin, lo[i])
    return middle, right_begin, left, right


@kernel
def _approximate(lo: I64, hi: I64, by_lo: I64, by_hi: I64, apart: float) -> tuple[int, int, int, int]:
    """Give the leftmost box to the left and the rightmost to the right, in turn, as long as they stay clear."""
    n = len(lo)
    left, right = 0, 0
    left_end, right_begin = lo[by_lo[0]], hi[by_hi[n - 1]]
    more = True
    while more:
        more = False
        if left < n and (right == 0 or _clear(hi[by_hi[left]], right_begin, apart)):
            left_end = hi[by_hi[left]]
            left += 1
            more = True
        if right < n and (left == 0 or _clear(left_end, lo[by_lo[n - 1 - right]], apart)):
            right_begin = lo[by_lo[n - 1 - right]]
            right += 1
            more = True
    return left_end, right_begin, left, right


@kernel
def _exhaustive(lo: I64, hi: I64, by_lo: I64, by_hi: I64, apart: float, least: int) -> tuple[int, int, int, int]:
    """The split with the shortest overlapping bucket, then the least coverage, then the most even one."""
    n = len(lo)
    past_lo, past_hi = lo[by_hi], hi[by_lo]  # lowest begin up to the i-th by upper end; highest end by lower end
    rest_lo, rest_hi = lo[by_hi], hi[by_lo]  # the same from the i-th on
    for i in range(1, n):
        j = n - 1 - i
        past_lo[i], past_hi[i] = min(past_lo[i - 1], past_lo[i]), max(past_hi[i - 1], past_hi[i])
        rest_lo[j], rest_hi[j] = min(rest_lo[j + 1], rest_lo[j]), max(rest_hi[j + 1], rest_hi[j])
    best = (np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    best_overlap, best_covered, best_even = np.inf, np.inf, np.int64(0)
    for way in range(2):
        left, right_from = 0, 0  # boxes left; the first box right, by lower end
        for step in range(n):
            if way == 0:  # the upper end of the step-th box is left_end
                left = step + 1
                left_end = hi[by_hi[step]]
                if left < n and hi[by_hi[left]] == left_end:
                    continue
                while right_from < n and not _clear(left_end, lo[by_lo[right_from]], apart):
                    right_from += 1
                if right_from == n:
                    break
                right_begin = lo[by_lo[right_from]]
            else:  # the lower end of the step-th box is right_begin
                right_from = step
                right_begin = lo[by_lo[step]]
                if step and lo[by_lo[step - 1]] == right_begin:
                    continue
                while left < n and _clear(hi[by_hi[left]], right_begin, apart):
                    left += 1
                if left == 0:
                    continue
                left_end = hi[by_hi[left - 1]]
            right = n - right_from
            if left < least or right < least:
                continue
            begin, end = past_lo[left - 1], rest_hi[right_from]  # of left and right together
            overlap, covered = 0.0, length(begin, left_end) + length(right_begin, end)
            if left + right < n:
                low, high = rest_lo[left], past_hi[right_from - 1]
                overlap = length(low, high)
                covered += length(max(low, left_end + 1), min(high, right_begin - 1))
                covered += length(low, begin - 1) if low < begin else 0.0
                covered += length(end + 1, high) if high > end else 0.0
            even = min(left, right)
            if overlap < best_overlap or (
                overlap == best_overlap and (covered < best_covered or (covered == best_covered and even > best_even))
            ):
                best = (left_end, right_begin, np.int64(left), np.int64(right))
                best_overlap, best_covered, best_even = overlap, covered, np.int64(even)
    return best  # type: ignore[return-value]
