"""Slots that came to a MICS index in another order than their numbers left lists that did not ascend."""

from __future__ import annotations

import numpy as np

from earmark.index.mics import MicsIndex
from earmark.workload.mics import mics


def test_lists_ascend() -> None:
    table = mics("zipf", 600, 1, attributes=3, sizes=16).table()
    index = MicsIndex.build(table)
    index.remove(np.arange(0, 600, 2, dtype=np.int32))
    for first in (4, 0, 2):
        index.insert(table, np.arange(first, 600, 6, dtype=np.int32))
        index.check()
