"""Subscriptions and publications of one size, uniform or Zipfian: the experiments of MICS (mics.txt, section 7).

Every attribute is cut into 256 cells. A subscription draws the lower end of its range on every attribute, and its
upper end is `size` cells higher; a publication draws a value on every attribute.

    uniform   |..-..-...--...-...-..-|      every cell as likely as the others
    zipf      |----.--.-..-....-.....|      cell i with odds 1 / (i + 1) ** exponent: the low cells are busy
              0                     255     size 4: cells lo .. lo + 3

A cell has `grain` values, one unless said otherwise, so that ranges are whole cells as in the paper. With more, a lower
end and a value are uniform inside their cell, ranges begin and end inside cells, and a value in the last cell of a
range need not be in the range: what variable cells (section 6.3) are for.

What the paper leaves open:
- The exponent of Zipf's law. Here 1, with which Table 2's Zipfian traffic comes out within a few per cent (`table_2`),
  and of 20,000 subscriptions over the first three of seven attributes about as many are left to evaluate as in Table 3.
- What happens at the upper border. Here a range is moved down until it fits, so that all have the size asked for.
- How Table 2 can have few false positives. Where seven independent attributes all have ranges of 4 of 256 cells, a
  publication that fits three of them hardly ever fits the other four, so that nearly all of the projected traffic is
  false. `table_2` makes data with about the printed traffic, and the printed share of false positives of uniform data:
  sizes from 1 to 4 (the paper speaks of an *average* size), and four attributes that one subscription in eight asks
  about.

Bit for bit: the same seed gives the same numbers, and fewer rows are a prefix of more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from earmark.flat.arrays import F64, I64
from earmark.workload.standard import Workload, check, dense

CELLS = 256
ATTRIBUTES = 7
SIZE = 4
EXPONENT = 1.0
TABLE_2_ASKED = (1.0, 1.0, 1.0, 0.125, 0.125, 0.125, 0.125)
"""Of the subscriptions that fit a publication on three attributes, (7/8) ** 4 = 59 % ask nothing of the others."""
SUBSCRIPTION_STREAM, PUBLICATION_STREAM, SHAPE_STREAM = 0, 1, 2
DISTRIBUTIONS = ("uniform", "zipf")
MOST_GRAIN = 1 << 40


def mics(
    distribution: str = "zipf",
    subscriptions: int = 100_000,
    publications: int = 10_000,
    *,
    attributes: int = ATTRIBUTES,
    sizes: int | Sequence[int] = SIZE,
    exponent: float = EXPONENT,
    published: str | None = None,
    grain: int = 1,
    seed: int = 2008,
    drawn: bool = False,
    asked: Sequence[float] | None = None,
) -> Workload:
    """Draw subscriptions of a distribution, and publications of the same, or of the one called `published`.

    `sizes` is how many cells a range is wide, one number for all attributes or one for each; with `drawn`, every range
    draws its size from 1 to that. `asked` is, by attribute, the share of subscriptions that ask about it (the others
    take every value); 1 by default. `grain` is the number of values per cell.
    """
    for name in (distribution, published or distribution):
        check(name in DISTRIBUTIONS, f"expected a distribution, {' or '.join(DISTRIBUTIONS)}, got {name!r}")
    least = min(subscriptions, publications, attributes)
    check(least >= 1, f"expected at least one subscription, publication and attribute, got {least}")
    check(0 <= exponent <= 100, f"expected an exponent of Zipf's law from 0 to 100, got {exponent}")
    check(1 <= grain <= MOST_GRAIN, f"expected 1 to 2^40 values per cell, got {grain}")
    width: I64 = np.full(attributes, sizes) if isinstance(sizes, int) else np.array(sizes, np.int64)
    known = width.shape == (attributes,) and ((width >= 1) & (width <= CELLS)).all()
    check(known, f"expected sizes from 1 to {CELLS} cells, one number or one for each of {attributes} attributes")
    odds: F64 = np.ones(attributes) if asked is None else np.array(asked, np.float64)
    shares = odds.shape == (attributes,) and ((odds >= 0) & (odds <= 1)).all()
    check(shares, f"expected asked to be a share from 0 to 1, one for each of {attributes} attributes")
    random, other, shape = (np.random.default_rng([seed, stream]) for stream in range(SHAPE_STREAM + 1))
    shapes = shape.random((subscriptions, attributes, 2))
    if drawn:
        width = 1 + (shapes[:, :, 0] * width).astype(np.int64)
    width = np.where(shapes[:, :, 1] < odds, width, CELLS)
    lower = _values(random, subscriptions, attributes, _odds(distribution, exponent), grain)
    lo = np.minimum(lower, (CELLS - width) * grain)
    hi = lo + width * grain - 1
    value = _values(other, publications, attributes, _odds(published or distribution, exponent), grain)
    return dense(lo, hi, value, CELLS * grain)


def table_2(distribution: str, subscriptions: int, publications: int = 10_000, *, seed: int = 2008) -> Workload:
    """Draw data with the traffic of the paper's Table 2, projected on the first three attributes."""
    return mics(distribution, subscriptions, publications, drawn=True, asked=TABLE_2_ASKED, seed=seed)


def _odds(distribution: str, exponent: float) -> F64:
    """Return the odds of the cells, summed up."""
    odds: F64 = np.arange(1, CELLS + 1, dtype=np.float64) ** -(exponent if distribution == "zipf" else 0.0)
    return np.cumsum(odds / odds.sum())


def _values(random: np.random.Generator, rows: int, attributes: int, odds: F64, grain: int) -> I64:
    """Draw a cell by its odds, and a place inside it, row by row, so that fewer rows are a prefix."""
    drawn = random.random((rows, attributes, 2))
    cell = np.searchsorted(odds, drawn[:, :, 0], side="right").clip(0, CELLS - 1)
    return cell.astype(np.int64) * grain + (drawn[:, :, 1] * grain).astype(np.int64)
