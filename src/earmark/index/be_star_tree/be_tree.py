"""Which clauses can an event match: BE-Tree, the BE*-Tree over cells of a halved domain. The rival.

Sadoghi and Jacobsen's BE-Tree, as the BE*-Tree's paper describes it (sections II and VII): the same partitioning, the
same l-nodes, the same search; but clustering is rigid. A c-directory halves the domain of its attribute again and
again:

    p-node a, clauses over [3, 12]     cell [0, 15]
                                       /          \\
                              cell [0, 7]        cell [8, 15]      a clause is in the smallest cell that holds it

A cell stays as it is whatever is in it: no boxes to repair at a removal, no dependence on the order of inserts, but
a search also enters cells whose clauses are far from its value, and a narrow cluster in a wide domain hangs at the end
of a chain of cells.

**Invariant** (`check`). As the BE*-Tree's, with cells for boxes: every clause is inside its cell, every cell inside its
parent's half. **Complexity.** As there; a c-directory is at most 64 deep.

Everything is the BE*-Tree's code, which knows one difference: where boxes come from. A domain is the
smallest aligned power of two of keys that holds the first clauses of a p-node; it doubles when a clause is outside it.
"""

from __future__ import annotations

from typing import Self

from earmark.index.be_star_tree import BEStarTree
from earmark.segment.arrays import SegmentArrays


class BETree(BEStarTree):
    """A BE*-Tree with rigid clustering."""

    rigid = True

    @classmethod
    def build(  # type: ignore[override]
        cls, table: SegmentArrays, *, capacity: int | None = None, ranking: str = "popularity", bulk: bool = True
    ) -> Self:
        """Build the tree of a table. O(n c depth). The other options of a BE*-Tree shape boxes, and cells have none."""
        return super().build(table, capacity=capacity, ranking=ranking, bulk=bulk)
