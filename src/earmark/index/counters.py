"""Fields of the work counters that kernels add to, in the order of `Work`: `Work.counted` reads them."""

from __future__ import annotations

from earmark.flat.arrays import I64
from earmark.jit import inlined

NODES, CANDIDATES, COMPARED, MATCHED, SCORED, PRUNED, LEAVES, PRUNED_LEAVES = range(8)
COUNTERS = 8
MOST_COUNTERS = 64
"""An index may count more than these, up to this many fields."""


@inlined
def work_so_far(work: I64) -> tuple[int, int, int, int]:
    """What matching has counted, to go back to if an event has to come again for want of room."""
    return work[NODES], work[CANDIDATES], work[COMPARED], work[LEAVES]


@inlined
def back_to(work: I64, before: tuple[int, int, int, int]) -> None:
    """Count only what was counted before."""
    work[NODES], work[CANDIDATES], work[COMPARED], work[LEAVES] = before
