"""Merging: ranges of a link are told as few larger ones, which may claim a little more.

mics.txt, section 3.6. Ranges that touch or overlap merge *perfectly*: that costs nothing, and is what every table of
ranges does, so `merging` without options tells what `subsumption` with Projection tells. *Imperfect* merging closes
gaps, and whoever closes a gap tells it (cover/ranges/table.py): a later subscription inside it looks covered.

    Merging(space)                               perfect
    Merging(space, gap=64)                       gaps of up to 64 numbers are closed
    Merging(space, budget=0.1, sample=events)    gaps are closed that cost at most 10 % more publications on links

**The budget** bounds the publications that are sent to a neighbour in vain because of closed gaps, as a share of those
that are in the ranges asked for. Gaps are weighed by past events (cover/ranges/budget.py). A neighbour merges what was
merged before, so a gap costs on every link of the way: the budget holds for a path of `hops` links, since each broker
spends the hops-th root of it. Clients still get exactly what they subscribed to.

Tables depend on what is asked for, not on the order in which it came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from earmark.cover.merging.traffic import check_budget
from earmark.cover.ranges.budget import BudgetTable, Weights
from earmark.cover.ranges.table import MOST_GAP
from earmark.errors import EarmarkError, check_whole, shortened
from earmark.overlay.policies.ranges import AsWanted, RangePolicy, ToldRanges, WithGaps
from earmark.overlay.space import MOST_RANGES, Space

HOPS = 8
"""Links on the longest path, unless said otherwise."""


class Merging(RangePolicy):
    """Ranges with gaps closed."""

    name = "merging"

    def __init__(
        self,
        space: Space | Mapping[str, Any] | None = None,
        most: int = MOST_RANGES,
        gap: int = 0,
        budget: float | None = None,
        sample: Sequence[Mapping[str, Any]] = (),
        hops: int = HOPS,
    ) -> None:
        """Choose which gaps are closed: none, those of up to `gap` numbers, or those that a `budget` permits.

        `sample`: past events, by which a budget weighs gaps; brokers may have different ones. `hops`: links on the
        longest path of the network.
        """
        super().__init__(space, most)
        check_whole(gap, "gap", 0, MOST_GAP)
        check_whole(hops, "hops", 1, 1 << 16)
        if not isinstance(sample, Sequence) or not all(isinstance(event, Mapping) for event in sample):
            raise EarmarkError(f"expected a list of events for sample, got {shortened(repr(sample), 60)}")
        self._gap, self._share, self._sample = gap, 0.0, list(sample)
        self._is_budgeted = budget is not None
        if budget is not None:
            check_budget(budget)
            if gap or not sample:
                raise EarmarkError("expected a budget with a sample of past events, and without a gap")
            self._share = (1 + budget) ** (1 / hops) - 1
        self._moved()

    def _moved(self) -> None:
        if self._is_budgeted:
            _, first, _ = self._grid.numbers(self._sample)
            self._weights = Weights.of(first, self._grid.last)

    def _table(self) -> ToldRanges:
        if self._is_budgeted:
            return BudgetTable(self._share, self._weights)
        return WithGaps(self._gap) if self._gap else AsWanted()
