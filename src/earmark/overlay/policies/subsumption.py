"""Subsumption: what several others together ask for already is not told.

mics.txt, sections 3.7 and 5. Two ways:

**Projection** (`by="projection"`): conditions become ranges of a space that all brokers have, on some attributes, and
a range is told as far as it is not inside what was told (policies/ranges.py). A look-up decides, and brokers keep
nothing but ranges. What a space leaves out makes publications travel in vain, but never get lost. Tables do not depend
on the order in which subscriptions came.

**Subscription Indexing** (`by="indexing"`): conditions themselves are told, unless those told before take everything
that they take (policies/indexing.py).
"""

from __future__ import annotations

from typing import Any

from earmark.errors import EarmarkError
from earmark.overlay.policies import Policy
from earmark.overlay.policies.indexing import Indexing
from earmark.overlay.policies.ranges import AsWanted, RangePolicy, ToldRanges

WAYS = ("projection", "indexing")


def subsumption(by: str = "projection", **options: Any) -> Policy:
    """Subsumption in one of two ways, 'projection' or 'indexing'; the options are those of `Projecting`, `Indexing`."""
    if by not in WAYS:
        raise EarmarkError(f"expected {' or '.join(WAYS)} for by, got {by!r}")
    return Projecting(**options) if by == "projection" else Indexing(**options)


class Projecting(RangePolicy):
    """Ranges, as far as they are new."""

    name = "subsumption"

    def _table(self) -> ToldRanges:
        return AsWanted()
