"""The streams of the covering paper."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from earmark.errors import EarmarkError
from earmark.segment.arrays import check_arrays
from earmark.workload.rectangles import boxes, commands


def test_a_stream_can_be_played() -> None:
    stream = commands(5000, 6, 0.3)
    live: set[int] = set()
    arrived = 0
    for subscribes, slot in zip(stream.subscribes.tolist(), stream.slot.tolist(), strict=True):
        if subscribes:
            assert slot == arrived
            arrived += 1
            live.add(slot)
        else:
            live.remove(slot)
    assert arrived == len(stream.lo) == stream.subscribes.sum()
    assert 0.27 < 1 - stream.subscribes.mean() < 0.33
    table = stream.table()
    check_arrays(table, 3)
    assert len(table.sequence) == arrived
    assert (stream.lo <= stream.hi).all() and stream.lo.min() >= 0 and stream.hi.max() < 1 << 20


def test_sides_run_between_two_random_points() -> None:
    """Lengths have mean 1/3 of the range, and one rectangle contains another on an attribute with odds 1/6."""
    stream = commands(20_000, 2, 0.0)
    lo, hi = stream.lo[:, 0], stream.hi[:, 0]
    assert abs((hi - lo).mean() / 2**20 - 1 / 3) < 0.01
    inside = (lo[::2] <= lo[1::2]) & (hi[1::2] <= hi[::2])
    assert abs(inside.mean() - 1 / 6) < 0.02


def test_the_same_numbers_everywhere() -> None:
    stream = commands(1000, 10, 0.4)
    digest = hashlib.sha256()
    for array in stream:
        digest.update(np.ascontiguousarray(array).tobytes())
    for array in boxes(100, 3, 0.5):
        digest.update(array.tobytes())
    assert digest.hexdigest()[:16] == "7baa7f9ec60b92a4"
    assert not np.array_equal(commands(1000, 10, 0.4, seed=1).lo[:50], stream.lo[:50])


def test_bad_requests_get_a_sentence() -> None:
    for count, dimension, p in ((0, 6, 0.1), (10, 5, 0.1), (10, 0, 0.1), (10, 6, 0.5), (10, 6, -0.1)):
        with pytest.raises(EarmarkError):
            commands(count, dimension, p)
