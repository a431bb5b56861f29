"""Numbers that explanations and pages cite, and those that are typed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from earmark.errors import EarmarkError
from earmark.report import explanations
from earmark.report.citations import cite, filled_in
from earmark.report.claims import Claim
from earmark.report.experiment import Measurement, Panel, Point, Printed, Series
from earmark.report.explanations import explained, typed_numbers
from earmark.report.html import page

CLAIM = Claim("vcr", "x", "1", "More for W = 40.", "figure-6", "time", "first", "fast")


def measured(scale: str = "full") -> Measurement:
    def line(name: str, *values: float) -> Series:
        points = [
            Point(x, [v * 0.9, v, v * 1.2], {"nodes": v * 100, "bytes": 1_234_567 / v, "filled": 0.204})
            for x, v in zip((1_000, 2_000), values, strict=True)
        ]
        return Series("time", name, points)

    return Measurement(
        paper="vcr", name="figure-6", scale=scale, title="", section="", published="", setting="64 events", differs="",
        parameters={"turns": 3}, seed=1, panels=[Panel("time", "n", "µs")],
        printed=[Printed("time", "slow", 1_000, 5)], notes=[],
        series=[line("fast", 1, 2), line("slow", 4, 12)], seconds=1.0,
        machine={"load_average": 1, "versions": {}, "processor": "", "cores": 1, "memory_gib": 1, "system": "",
                 "commit": "1"},
        date="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("time; slow; 2,000", "12"),
        (".; .; 2,000", "2"),
        ("figure-6 > .; slow; last; nodes", "1,200"),
        ("vcr/figure-6 > time; slow; 1000", "4"),
        ("least: .; slow; 1,000", "3.6"),
        ("greatest: .; slow; *", "12"),
        ("least: .; slow; *; nodes", "400"),
        ("spread: .; slow; *", "30 %"),
        ("ratio: .; slow; first over .; .; first", "4.0×"),
        ("greatest ratio: .; slow; *; nodes over .; .; *; nodes", "6.0×"),
        ("least ratio: .; slow; * over .; .; *", "4.0×"),
        ("percent: .; slow; 1,000 over .; .; 2,000", "100 %"),
        ("least percent: .; slow; * over .; .; *", "300 %"),
        ("greatest percent: .; slow; * over .; .; *", "500 %"),
        ("share: .; .; 1,000 over .; slow; 1,000", "25 %"),
        ("each: .; slow; 2,000 over .; .; 2,000; nodes", "0.06"),
        ("rounded: .; slow; 2,000; nodes", "1,200"),
        ("rounded: .; .; 1,000; bytes", "1.23 million"),
        ("rounded: .; .; 2,000; bytes", "617,000"),
        ("as percent: .; .; 1,000; filled", "20.4 %"),
        ("per x: .; slow; 1,000; nodes", "0.4"),
        ("printed: .; slow; 1,000", "5"),
    ],
)
def test_expressions(expression: str, text: str) -> None:
    assert cite(expression, [measured()], CLAIM) == text
    assert filled_in(f"It is {{{expression}}}.", [measured()], CLAIM) == f"It is {text}."


@pytest.mark.parametrize(
    "expression",
    [".; .; 3,000", ".; quick; 1,000", "space; .; 1,000", ".; .; 1,000; leaves", ".; .; *", "ratio: .; .; 1,000",
     ".; .", "figure-7 > .; .; 1,000", "printed: .; .; 1,000", "printed: .; slow; *", "per x: .; .; *"],
)  # fmt: skip
def test_a_wrong_expression_is_refused(expression: str) -> None:
    with pytest.raises(EarmarkError):
        cite(expression, [measured()], CLAIM)


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("For W = 40, with 64 events and n = 2,000, in 3 turns, {.; .; 2,000} µs are little, even in 2-d.", []),
        ("It visits 531 nodes at 2,000.", ["531"]),
        ("As in Figure 9 and Table 3, 9 are left.", ["9"]),
        ("It takes 64 µs and 40× more, or 3 times.", ["64 µs", "40×", "3 times"]),
        ("Half the nodes, twice the time; two times as many.", ["Half", "twice", "two times"]),
        ("At 2,000, 7.5 are left (2,001).", ["7.5", "2,001"]),
    ],
)
def test_typed_numbers_are_found(text: str, typed: list[str]) -> None:
    assert typed_numbers(text, CLAIM, measured()) == typed


def test_only_the_committed_run_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = replace(CLAIM, id="longest", series="slow")
    monkeypatch.setattr("earmark.report.claims.claims_of", lambda paper: [failing])
    monkeypatch.setattr(explanations, "explanations_of", lambda paper: {"longest": "It visits {.; .; 1,000; nodes}."})
    full = measured()
    assert explained([full]) == {"vcr/longest": "It visits 400."}
    assert "It visits 400." in page([full], {}, explained([full]))
    assert "It visits" not in page([measured("quick")], {}, {})
