"""Verdicts hid what they forgave and rounded across their limit: "at most 1.2 times: holds, 1.2×" was printed directly
above "fails: 1.2×", and "G_1 is the fastest: holds, the least is at k 2".
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.report.claims import Claim, Verdict, judge, verdicts
from earmark.report.claims.words import all_times, number, numbers, times
from earmark.report.experiment import Measurement, Panel, Point, Printed, Series
from earmark.report.papers import all_keys
from earmark.report.results import read_all

RESULTS = Path(__file__).parents[3] / "docs" / "results"


def measured(series: dict[str, list[float]]) -> Measurement:
    return Measurement(
        paper="vcr", name="figure-6", scale="full", title="", section="", published="", setting="", differs="",
        parameters={}, seed=1, panels=[Panel("time", "k", "s")], printed=[Printed("time", "a", 1, 1.1)], notes=[],
        series=[
            Series("time", name, [Point(x, [value]) for x, value in enumerate(row, 1)]) for name, row in series.items()
        ],
        seconds=1.0, machine={}, date="",
    )  # fmt: skip


def said(rule: str, series: dict[str, list[float]], name: Any = "a", **fields: Any) -> str:
    return str(judge(Claim("vcr", "x", "1", "…", "figure-6", "time", rule, name, **fields), measured(series)))


def test_a_ratio_on_either_side_of_its_limit() -> None:
    assert (
        said("between", {"a": [1.17], "b": [1.0]}, over="b", most=1.2) == "holds, 1.17× at k 1; expected at most 1.2×"
    )
    assert (
        said("between", {"a": [1.22], "b": [1.0]}, over="b", most=1.2) == "fails: 1.22× at k 1; expected at most 1.2×"
    )
    assert said("between", {"a": [1.2], "b": [1.0]}, over="b", most=1.2) == "holds, 1.2× at k 1; expected at most 1.2×"
    assert said("growth", {"a": [1.0, 1.04]}, least=1.0) == "holds, 1.04× from k 1 to 2; expected at least 1×"
    assert said("first", {"a": [1.0], "b": [0.9996]}) == "fails: 0.9996× against b at k 1; expected at least 1×"


def test_what_is_forgiven_is_said() -> None:
    fall = "0.365, 0.36, 0.408 s; a fall of 1.01× from k 1 to 2"
    assert said("monotone", {"a": [0.365, 0.36, 0.408]}, slack=1.05) == f"holds, {fall}; up to 1.05× is forgiven"
    assert said("monotone", {"a": [0.365, 0.36, 0.408]}) == f"fails: {fall}"
    assert said("best", {"a": [0.365, 0.36]}, expected=(1,), slack=1.05) == (
        "holds, the least is 0.36 s at k 2, against 0.365 s at 1, which is 1.01× as much; up to 1.05× is forgiven"
    )
    assert said("order", {"a": [1.0], "b": [2.0]}, ["a", "b"]) == ("holds, a is 0.50× b at k 1; expected at most 1×")
    assert said("printed", {"a": [1.0]}) == "holds, 1 against 1.1 printed at k 1, 9.09 % off; expected at most 10 %"


def test_neighbours_that_differ_look_different() -> None:
    assert numbers([272.4, 272.1, 272.1, 3.0]) == ["272.4", "272.1", "272.1", "3.0"]
    assert all_times([1.06, 1.14]) == ["1.06×", "1.14×"]
    assert numbers([0.365, 0.36]) == ["0.365", "0.36"]


@given(st.floats(0.001, 1e6), st.floats(0.001, 1e6))
def test_no_value_looks_like_a_limit_that_it_is_not(value: float, limit: float) -> None:
    for text in (number(value, [limit]), times(value, [limit]).rstrip("×")):
        shown = float(text.replace(",", ""))
        assert (shown < limit, shown > limit) == (value < limit, value > limit) or abs(value - limit) < 1e-9 * limit


COMMITTED = [verdict for measurement in read_all(RESULTS, all_keys()) for verdict in verdicts(measurement)]


@pytest.mark.parametrize("verdict", COMMITTED, ids=lambda verdict: f"{verdict.claim.paper}/{verdict.claim.id}")
def test_committed_verdicts_agree_with_the_numbers_they_print(verdict: Verdict) -> None:
    """Whoever compares the printed number with the printed limit comes to the printed verdict."""
    number_and_limit = re.match(
        r"(?:.*closest: )?(?:.* is )?(-?[\d.,]+(?:e-\d+)?)\D.*; expected (at least|at most) ([\d.,]+)", verdict.detail
    )
    if number_and_limit and verdict.claim.rule != "printed":
        shown, limit = (float(number_and_limit[i].replace(",", "")) for i in (1, 3))
        assert verdict.holds == (shown >= limit if number_and_limit[2] == "at least" else shown <= limit)
