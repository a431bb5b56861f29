"""`python -O` drops assertions; what guards kernels against damaged tables must stay."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import numpy as np
from earmark import Matcher
from earmark.segment.arrays import check_arrays

m = Matcher()
m.add("a", "x BETWEEN 1 AND 5 AND y = 3")
good = m._version.whole.arrays
check_arrays(good, 2)
try:
    check_arrays(good._replace(interval_start=np.array([0, 1, 9_000_000], np.int32)), 2)
except AssertionError as problem:
    print("refused:", problem)
"""


def test_damaged_arrays_are_refused_without_assertions() -> None:
    done = subprocess.run([sys.executable, "-O", "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("refused:")
