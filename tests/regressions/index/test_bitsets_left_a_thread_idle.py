"""A batch of up to 2,048 events was one group in the bitsets index, so a second thread had nothing to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.index import driver
from earmark.index.bitsets import LANES, BitsetIndex
from earmark.workload.standard import dense


def made() -> tuple[BitsetIndex, EventArrays]:
    random = np.random.default_rng(4)
    lo = random.integers(0, 900, (5_000, 3))
    data = dense(lo, lo + 100, random.integers(0, 1_000, (3_000, 3)), 1_000)
    return BitsetIndex.build(data.table()), data.events()


@pytest.mark.parametrize(
    ("events", "threads", "groups"),
    [
        (1_000, 1, [1_000]),
        (1_000, 2, [500, 500]),
        (1_000, 3, [334, 333, 333]),
        (3_000, 2, [1_500, 1_500]),
        (LANES, 1, [LANES]),
        (3_000, 1, [1_500, 1_500]),
        (200, 4, [67, 67, 66]),
        (100, 4, [100]),
        (10, 2, [10]),
        (0, 2, [0]),
    ],
)
def test_each_thread_has_a_group(events: int, threads: int, groups: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    index, every = made()
    some = EventArrays(every.start[: events + 1], *every[1:])
    eligible = bits.all_set(5_000)
    wanted, work = index.match_many(some, eligible), index.work
    sizes: list[int] = []
    real = BitsetIndex._match_group

    def counted(self: BitsetIndex, asked: Any) -> Any:
        sizes.append(asked.last - asked.first)
        return real(self, asked)

    monkeypatch.setattr(BitsetIndex, "_match_group", counted)
    found = index.match_many(some, eligible, threads=threads)
    assert sorted(sizes, reverse=True) == groups
    assert all(np.array_equal(own, right) for own, right in zip(found, wanted, strict=True)) and index.work == work
    assert driver.FEW_LANES == 64
