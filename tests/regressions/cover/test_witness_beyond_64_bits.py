"""An event that proves something had a number whose place among all numbers needs more than 64 bits: OverflowError."""

from __future__ import annotations

import pytest

from earmark import Matcher
from earmark.cover import Verdict, subsumed

FAR = 2**62


@pytest.mark.parametrize(
    ("conditions", "verdict"),
    [
        ((f"x BETWEEN 0 AND {FAR}", "x < 5", f"x > {FAR - 1}"), Verdict.NEEDED),
        ((f"x BETWEEN 0 AND {FAR}", "x < 5", f"x >= 5 AND x < {FAR}"), Verdict.NEEDED),
        ((f"x BETWEEN 0 AND {FAR}", f"x <= {FAR - 9}", f"x >= {FAR - 8}"), Verdict.SUBSUMED),
        ((f"x BETWEEN 0 AND {FAR}", f"x <= {FAR - 9}", f"x >= {FAR - 7}"), Verdict.NEEDED),
        ((f"x BETWEEN -{FAR} AND {FAR}", "x < 5", "x > 4.5"), Verdict.SUBSUMED),
        ((f"x BETWEEN -{FAR} AND {FAR}", "x < 5", "x > 5"), Verdict.NEEDED),
    ],
)
def test_verdicts_on_wide_numbers(conditions: tuple[str, ...], verdict: Verdict) -> None:
    m = Matcher()
    m.add_many(enumerate(conditions))
    found = subsumed(m, 0)
    assert found.verdict is verdict
    if found.witness is not None:
        assert m.match(found.witness) == [0]
