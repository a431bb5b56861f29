"""Rules: each can hold, and each can fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from earmark.errors import EarmarkError
from earmark.report.claims import Claim, claims_of, judge, tally, verdicts
from earmark.report.experiment import WRONG, Measurement, Panel, Point, Printed, Series
from earmark.report.papers import PAPERS, experiments_of

TIMES = {"fast": [1.0, 1.5, 2.0], "slow": [4.0, 9.0, 20.0]}
SPACES = {"fast": [2.0, 3.0, 4.0], "slow": [8.0, 2.0, 50.0]}
PLACES = (10, 20, 40)


def measured(times: dict[str, list[float]] = TIMES, printed: float = 4.2) -> Measurement:
    def point(x: int, time: float) -> Point:
        return Point(x, [time * 0.9, time, time * 1.2], {"nodes": time * 100})

    series = [Series("time", name, list(map(point, PLACES, row))) for name, row in times.items()]
    series += [Series("space", name, list(map(point, PLACES, row))) for name, row in SPACES.items()]
    return Measurement(
        paper="vcr", name="figure-6", scale="full", title="", section="", published="", setting="", differs="",
        parameters={}, seed=1, panels=[Panel("time", "n", "µs"), Panel("space", "n", "B")],
        printed=[Printed("time", "slow", 10, printed)],
        notes=[], series=series, seconds=1.0, machine={}, date="",
    )  # fmt: skip


def claim(rule: str, series: Any = "slow", **fields: Any) -> Claim:
    return Claim("vcr", "x", "1", "…", "figure-6", "time", rule, series, **fields)


CASES = [
    (claim("between", over="fast", least=3.9), claim("between", over="fast", least=4.1), "4.0× at n 10"),
    (
        claim("between", over="fast", at=("last",), least=9.0),
        claim("between", over="fast", at=(40,), least=11.0),
        "10.0×",
    ),
    (claim("between", count="nodes", most=2000.0), claim("between", count="nodes", most=1999.0), "2,000 nodes"),
    (claim("growth", least=5.0, most=5.0), claim("growth", most=4.9), "5.0× from n 10 to 40"),
    (claim("monotone"), claim("monotone", direction="down"), "4, 9, 20 µs"),
    (
        claim("monotone", over="fast", how="difference"),
        claim("monotone", "fast", over="slow", how="difference"),
        "3, 7.5, 18 µs",
    ),
    (claim("best", expected=(10,)), claim("best", expected=(20,), slack=2.0), "4 µs at n 10"),
    (claim("first", "fast", least=4.0), claim("first", "fast", least=4.1), "4.0× against slow at n 10"),
    (claim("last", least=4.0), claim("last", "fast"), "4.0× against fast at n 10"),
    (claim("spread", most=10.0), claim("spread", most=9.9), "slow is 10.0× fast at n 40"),
    (
        claim("shift", over_panel="space", most=0.5),
        claim("shift", over_panel="space", least=1.0),
        "at n 10, against 20",
    ),
    (
        claim("between", against_panel="space", at=(10,), most=0.5),
        claim("between", against_panel="space", most=0.4),
        "0.50× at n 10",
    ),
    (
        claim("between", over="fast", against_panel="space", at=(10,), least=1.0),
        claim("between", over="fast", against_panel="space", at=(10,), least=1.1),
        "1.0× at n 10",
    ),
    (claim("order", ["fast", "slow"]), claim("order", ["slow", "fast"]), ""),
    (claim("printed", within=0.1), claim("printed", within=0.01), "4 against 4.2 printed"),
]


@pytest.mark.parametrize(("good", "bad", "detail"), CASES, ids=lambda case: getattr(case, "rule", ""))
def test_a_rule_holds_and_fails(good: Claim, bad: Claim, detail: str) -> None:
    assert judge(good, measured()).holds
    assert detail in str(judge(good, measured()))
    assert str(judge(bad, measured())).startswith("fails: ")


def test_a_slowed_index_makes_its_claim_fail() -> None:
    slowed = TIMES | {"fast": [t * 5 for t in TIMES["fast"]]}
    first = claim("first", "fast")
    assert judge(first, measured()).holds
    assert str(judge(first, measured(slowed))) == "fails: 0.80× against slow at n 10; expected at least 1×"


def test_a_wrong_answer_makes_every_claim_about_it_fail() -> None:
    result = measured()
    result.series[0].points[0] = Point(10, [], status=WRONG, note="3 matches are missing")
    for good, _, _ in CASES:
        if "fast" in (good.series, good.over) and not (good.at and 10 not in good.at and "first" not in good.at):
            assert "3 matches are missing" in str(judge(good, result))


def test_a_place_that_was_not_measured_fails() -> None:
    assert str(judge(claim("between", at=(99,), least=1.0), measured())) == "fails: slow was not measured at 99"


@pytest.mark.parametrize("fields", [{"rule": "nearly"}, {"rule": "between"}, {"rule": "best"}, {"rule": "order"}])
def test_wrong_claims_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(EarmarkError, match="claim vcr/x"):
        claim(**fields)


@pytest.mark.parametrize("paper", [paper.name for paper in PAPERS])
def test_claims_are_about_experiments_of_their_paper(paper: str) -> None:
    panels = {e.name: {panel.name for panel in e.panels} for e in experiments_of(paper)}
    for one in claims_of(paper):
        assert one.panel in panels[one.experiment], one.id


@pytest.mark.parametrize("paper", [paper.name for paper in PAPERS])
def test_no_two_claims_of_a_paper_say_the_same(paper: str) -> None:
    """One sentence could otherwise be said to hold and to fail."""
    texts = [one.text for one in claims_of(paper)]
    assert len(set(texts)) == len(texts)


def test_claims_of_papers_and_bars_of_our_own_are_counted_apart() -> None:
    bar = Claim("vcr", "y", "ours", "…", "figure-6", "time", "first", "slow")
    group = [judge(one, measured()) for one in (claim("first", "fast"), claim("first", "slow"), bar)]
    assert tally(group) == {"paper": (1, 2), "ours": (0, 1)}


def test_claims_in_our_settings_and_later_ones_are_no_claims_of_the_paper() -> None:
    kinds = {
        "variant": claim("first", "fast", variant=True),
        "added": claim("first", "fast", added=True),
        "replaced": claim("first", "fast", replaced_by="y"),
    }
    assert tally([judge(one, measured()) for one in kinds.values()]) == dict.fromkeys(kinds, (1, 1))
    assert all(one.kind == kind for kind, one in kinds.items())
    assert claim("first", "fast", added=True, variant=True).kind == "variant"


@pytest.mark.parametrize("paper", [paper.name for paper in PAPERS])
def test_claims_are_replaced_by_others_that_exist(paper: str) -> None:
    known = {one.id: one for one in claims_of(paper)}
    for one in known.values():
        assert not one.replaced_by or known[one.replaced_by].added, one.id


def test_a_later_claim_is_left_out_where_a_run_did_not_record_it() -> None:
    earlier = claim("between", count="leaves", least=1.0)
    with pytest.raises(EarmarkError, match="no count 'leaves'"):
        verdicts(measured(), [earlier])
    assert verdicts(measured(), [replace(earlier, added=True)]) == []
    wrong = measured()
    wrong.series[1].points[0] = Point(10, [], status=WRONG, note="3 matches are missing")
    assert [one.holds for one in verdicts(wrong, [replace(earlier, added=True)])] == [False]
