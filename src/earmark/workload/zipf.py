"""Scored intervals around Zipfian regions: the workload of ranked publish/subscribe (ranked-pubsub, section 4).

Points are in [0, 1)^d, each dimension cut into `parts`. A few hyper-rectangles of parts, the regions, get all of them:
a point goes to a region by Zipf(`skew_across`), and inside it to a part by Zipf(`skew_within`) of the distance from
the middle, and is uniform in its part. Events are such points. A subscription is a point x and for each dimension a
length by Zipf(`skew_length`); it asks for [x - length, x + length] in each dimension with weight 1 - length. The
greater `skew_length`, the shorter the intervals:

    0 ....:...|:.....1        region of 5 parts around |      subscription   x = .31, length .02 -> [.29, .33], .98

Table 1's defaults are those of `Parameters`. What the paper leaves open: the sides of a region (here its volume spread
over the dimensions by random exponents), the distance (here of each dimension by itself), the values a length can have
(here 1 to `parts` parts, uniform inside its part, so that no two are equal), and what happens at the border (here the
interval is cut off).

Numbers become keys by a factor of 2 ** 30. The same seed gives the same numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.flat.arrays import F64, I64
from earmark.workload.standard import Workload, check, dense

DOMAIN = 1 << 30


class Parameters(NamedTuple):
    """Table 1, with the names of the paper where it has any; `v_min` and `v_max` are shares of all parts."""

    intervals: int = 1_000_000
    queries: int = 1_000
    dimensions: int = 1
    skew_length: float = 0.75
    regions: int = 10
    parts: int = 100
    v_min: float = 1 / 20
    v_max: float = 1 / 20
    skew_across: float = 0.0
    skew_within: float = 1.0


def zipf(seed: int = 20080824, block: int = 0, **changes: float) -> Workload:
    """Draw the workload with Table 1's parameters, except for `changes`; every predicate has a weight.

    Blocks other than 0 have other rows around the same regions, from a stream of their own.
    """
    given = Parameters()._replace(**changes)  # type: ignore[arg-type]
    _check(given)
    random = np.random.default_rng(seed)
    regions = _regions(random, given)
    if block:
        random = np.random.default_rng([seed, block])
    event = _points(random, given, regions, given.queries)
    middle = _points(random, given, regions, given.intervals)
    part = _zipf(random, given.parts, given.skew_length, middle.shape)
    length = np.minimum((part + random.random(middle.shape)) / given.parts, 1.0)
    lo = np.clip((middle - length) * DOMAIN, 0, DOMAIN - 1).astype(np.int64)
    hi = np.clip((middle + length) * DOMAIN, 0, DOMAIN - 1).astype(np.int64)
    return dense(lo, hi, (event * DOMAIN).astype(np.int64), DOMAIN, 1.0 - length)


def _check(given: Parameters) -> None:
    for name in ("intervals", "queries", "dimensions", "regions", "parts"):
        value = getattr(given, name)
        check(int(value) == value and value >= 1, f"{name}: expected a whole number of at least 1, got {value}")
    shares = 0 < given.v_min <= given.v_max <= 1
    check(shares, f"expected 0 < v_min <= v_max <= 1, got {given.v_min} and {given.v_max}")
    for name in ("skew_length", "skew_across", "skew_within"):
        value = getattr(given, name)
        check(value >= 0, f"{name}: expected a number of at least 0, got {value}")


def _zipf(random: np.random.Generator, values: int, skew: float, shape: tuple[int, ...]) -> I64:
    """Draw numbers below `values`, number i with odds 1 / (i + 1) ** skew."""
    odds = np.arange(1, values + 1, dtype=np.float64) ** -skew
    return np.searchsorted(np.cumsum(odds / odds.sum()), random.random(shape)).clip(0, values - 1).astype(np.int64)


def _regions(random: np.random.Generator, given: Parameters) -> tuple[I64, I64]:
    """Draw the first part and the number of parts of each region, by dimension."""
    shape = (given.regions, given.dimensions)
    volume = random.uniform(given.v_min, given.v_max, given.regions)[:, None]
    exponent = random.uniform(0.5, 1.5, shape)
    side = given.parts * volume ** (exponent / exponent.sum(axis=1, keepdims=True))
    side = np.clip(np.rint(side), 1, given.parts).astype(np.int64)
    return (random.random(shape) * (given.parts - side + 1)).astype(np.int64), side


def _points(random: np.random.Generator, given: Parameters, regions: tuple[I64, I64], count: int) -> F64:
    first, side = regions
    region = _zipf(random, given.regions, given.skew_across, (count,))
    part = np.empty((count, given.dimensions), np.int64)
    for dimension in range(given.dimensions):
        for r in range(given.regions):
            chosen = np.flatnonzero(region == r)
            width, begin = int(side[r, dimension]), int(first[r, dimension])
            step = _zipf(random, width, given.skew_within, (len(chosen),))
            away = (step + 1) // 2 * np.where(step % 2, 1, -1)  # 0, 1, -1, 2, -2, ..
            part[chosen, dimension] = begin + (width - 1) // 2 + away
    return (part + random.random(part.shape)) / given.parts
