"""Fields of the work counters that kernels add to, in the order of `Work`: `Work.counted` reads them."""

from __future__ import annotations

NODES, CANDIDATES, COMPARED, MATCHED, SCORED, PRUNED, LEAVES, PRUNED_LEAVES = range(8)
COUNTERS = 8
