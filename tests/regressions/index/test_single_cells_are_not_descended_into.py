"""A point in many dimensions was made into ranges like a box: 2^d sub-cubes a level for a single number."""

from __future__ import annotations

import numpy as np

from earmark.curves import hilbert


def test_a_cell_is_its_number() -> None:
    random = np.random.default_rng(0)
    for dimensions, bits in ((1, 63), (2, 31), (3, 8), (20, 3)):
        cells = random.integers(0, 1 << min(bits, 62), (200, dimensions))
        start, first, last = hilbert.ranges(cells, cells, bits)
        assert start.tolist() == list(range(201))
        assert first.tolist() == last.tolist() == hilbert.numbers(cells, bits).tolist()
