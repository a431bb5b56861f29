"""Does a point dominate a query: 64 points at a time.

Rectangles become points of *dominance space* (Section IV-A): an interval [l, r] of an attribute gives the two
coordinates −l and r, and one rectangle contains another iff its point is at least as great in every coordinate. Points
are in blocks of 64, one column per coordinate, so that one comparison serves 64 of them:

    block    column 0: −l of axis 0   p0 p1 … p63          coordinates are codes of 16 bits (`scale.py`)
             column 1:  r of axis 0   p0 p1 … p63
             …
    mask     bit i: point i is >= the query in all columns so far

A point that dominates has codes that do; the reverse need not hold, and what codes, or the hull of a set, cannot tell
(close keys, holes, NULL, attributes without an axis) the exact test decides afterwards. The instructions are those of
matching (`index/dominance.py`).
"""

from __future__ import annotations

from earmark.index.blocks.dominance import I16, LANES, at_least64, dominating, lanes_below

__all__ = ["I16", "LANES", "at_least64", "dominating", "lanes_below"]
