"""The bound on work counted comparisons, whatever they cost: with many pieces a verdict took a minute."""

from __future__ import annotations

from random import Random

import numpy as np

from earmark import Matcher
from earmark.cover import Verdict, subsumed
from earmark.cover.exact import A_STEP


def test_words_count_as_work() -> None:
    random, many = Random(0), 3_000
    matcher = Matcher("scan")
    matcher.add(0, " AND ".join(f"a{j} BETWEEN 0 AND 1000000" for j in range(8)))

    def half(j: int) -> str:
        low = random.random() < 0.5
        return f"a{j} >= {random.randrange(400_000)}" if low else f"a{j} <= {random.randrange(600_000, 1_000_000)}"

    matcher.add_many([(i, " AND ".join(half(j) for j in range(8))) for i in range(1, many)])
    found = subsumed(matcher, 0, work=20_000)
    assert found.verdict is Verdict.UNDECIDED
    words = 8 * many // 64  # about: an end a box and attribute
    assert found.work - 20_000 < 10 * words // A_STEP + np.log2(many)
