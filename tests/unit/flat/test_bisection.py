"""Binary search in kernels agrees with the standard library's."""

from __future__ import annotations

import bisect
from random import Random

import numpy as np
import pytest

from earmark.flat.bisection import bisect_left, bisect_right


@pytest.mark.parametrize("seed", range(5))
def test_as_the_standard_library(seed: int) -> None:
    random = Random(seed)
    values = sorted(random.randrange(20) for _ in range(random.randrange(30)))
    array = np.array(values, np.int64)
    for key in range(-1, 21):
        begin = random.randrange(len(values) + 1)
        end = random.randrange(begin, len(values) + 1)
        assert bisect_left(array, begin, end, key) == bisect.bisect_left(values, key, begin, end)
        assert bisect_right(array, begin, end, key) == bisect.bisect_right(values, key, begin, end)
