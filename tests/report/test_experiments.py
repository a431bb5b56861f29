"""Every experiment at tiny scale: it runs, answers are right, results survive JSON, claims can be judged."""

from __future__ import annotations

import html
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from earmark.errors import EarmarkError
from earmark.index.ranked.sopt_r_tree import SoptRTree
from earmark.report import pages, results
from earmark.report.bench import Bench
from earmark.report.claims import claims_of, judge, verdicts
from earmark.report.experiment import SCALES, SKIPPED, WRONG, Experiment
from earmark.report.pages import filled, unexplained
from earmark.report.papers import PAPERS, chosen
from earmark.report.papers import vcr as vcr_paper
from earmark.report.run import measure, write_report

EVERY = chosen("all")


@pytest.mark.parametrize("experiment", EVERY, ids=lambda experiment: experiment.key)
def test_experiment(experiment: Experiment, tmp_path: Path) -> None:
    measurement = measure(experiment, "tiny")
    assert measurement.series
    assert not [point for series in measurement.series for point in series.points if point.status == WRONG]
    assert {series.panel for series in measurement.series} == {panel.name for panel in experiment.panels}
    assert results.read(results.write(measurement, tmp_path)) == measurement
    for claim in claims_of(experiment.paper):
        if claim.key == experiment.key:
            judge(claim, measurement)  # places differ at this scale; series and counts that do not exist raise
    assert verdicts(measurement) == []
    for scale in SCALES:
        assert "{" not in experiment.described(scale)
    report = write_report(tmp_path).read_text()
    assert html.escape(experiment.title).replace(" %", "\u00a0%") in report
    assert "<script" not in report
    assert "http" not in report.replace("http://www.w3.org", "")


def test_names_are_unique_and_papers_known() -> None:
    assert len({experiment.key for experiment in EVERY}) == len(EVERY)
    assert {experiment.paper for experiment in EVERY} <= {paper.name for paper in PAPERS}


def test_a_broken_index_has_no_time_and_fails_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    (experiment,) = chosen("vcr", "figure-8")
    right = vcr_paper.search

    def broken(index: Any, *rest: Any) -> Any:
        way = right(index, *rest)
        if index.describe()["store"] == "array":
            return way
        return lambda call: way(call)._replace(slots=way(call).slots[::-1] // 2)

    monkeypatch.setattr(vcr_paper, "search", broken)
    measurement = measure(experiment, "tiny")
    hashed = measurement.find("search time", "hashed")
    assert {point.status for point in hashed.points} == {WRONG}
    claim = next(claim for claim in claims_of("vcr") if claim.id == "hashing-costs-time")
    assert "hashed at 300 is wrong: " in str(judge(claim, measurement))


def test_a_wrong_order_of_the_best_fails_every_claim_about_it(monkeypatch: pytest.MonkeyPatch) -> None:
    (experiment,) = chosen("ranked", "figure-8")
    right = SoptRTree.top_k_many

    def broken(*asked: Any) -> Any:
        start, slots, scores = right(*asked)
        return start, slots[::-1], scores

    monkeypatch.setattr(SoptRTree, "top_k_many", broken)
    measurement = measure(experiment, "tiny")
    for panel, status in (("time", WRONG), ("relative time", SKIPPED)):
        assert {point.status for point in measurement.find(panel, "SOPT-R-tree").points} == {status}
    claims = [replace(claim, at=(1, 2)) for claim in claims_of("ranked") if claim.key == experiment.key]
    assert claims
    assert all("not the" in str(judge(claim, measurement)) for claim in claims)


def test_contenders_take_turns_after_a_warm_up() -> None:
    (experiment,) = chosen("vcr", "figure-9")
    bench = Bench(experiment, "tiny")
    calls: list[str] = []
    ways = {name: lambda call, name=name: calls.append(f"{name}{call}") for name in "ab"}
    bench.race("search time", 1, ways, calls=2, turns=2)
    assert calls == ["a0", "b0", "b2", "b3", "a2", "a3", "a4", "a5", "b4", "b5"]
    assert [len(series.points[0].samples) for series in bench.series] == [2, 2]


def test_results_of_other_versions_and_scales_are_refused(tmp_path: Path) -> None:
    (experiment,) = chosen("vcr", "figure-9")
    measurement = measure(experiment, "tiny")
    file = results.write(measurement, tmp_path)
    results.write(replace(measurement, name="figure-8", scale="quick"), tmp_path)
    with pytest.raises(EarmarkError, match="one scale per folder"):
        results.read_all(tmp_path, ["vcr/figure-8", "vcr/figure-9"])
    record = json.loads(file.read_text())
    for change in ({"version": 99}, {"scale": "huge"}, {"unknown": 1}, {"series": [{"panel": "x"}]}):
        file.write_text(json.dumps(record | change))
        with pytest.raises(EarmarkError, match="figure-9"):
            results.read(file)


def test_blocks_of_pages_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "explained", lambda measurements: {})  # explanations are about the committed run
    (experiment,) = chosen("vcr", "figure-9")
    page = "before\n<!-- results: vcr/figure-9 -->\nstale\n<!-- end of results -->\nafter\n"
    full = replace(measure(experiment, "tiny"), scale="full")
    text = filled(page, [full])
    assert "stale" not in text and "**holds**" in text and "| n | simple | overlapped |" in text
    assert filled(text, [full]) == text
    assert "Not in the committed run" in filled(page, [])
    with pytest.raises(EarmarkError, match="figure-77"):
        filled(page.replace("figure-9", "figure-77"), [])


def test_a_sentence_cites_the_verdict_on_a_claim() -> None:
    (experiment,) = chosen("vcr", "figure-9")
    full = replace(measure(experiment, "tiny"), scale="full")
    page = "OD is faster (<!-- verdict: vcr/overlapped-faster -->always<!-- end of verdict -->)."
    said = next(str(verdict) for verdict in verdicts(full) if verdict.claim.id == "overlapped-faster")
    assert filled(page, [full]) == page.replace("always", said)
    assert "-->not in the committed run<!--" in filled(page, [])
    with pytest.raises(EarmarkError, match="nonsense"):
        filled(page.replace("overlapped-faster", "nonsense"), [full])


def test_failing_claims_are_listed_with_their_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    (experiment,) = chosen("vcr", "figure-9")
    full = replace(measure(experiment, "tiny"), scale="full")
    ids = [verdict.claim.id for verdict in verdicts(full) if not verdict.holds]
    monkeypatch.setattr(pages, "explanations_of", lambda paper: {})  # a claim that fails here may be explained already
    record = tomllib.loads(unexplained([full]))
    assert ids and list(record) == ids
    assert "#   overlapped at 300: " in unexplained([full]) and "VCRs in use" in unexplained([full])
    monkeypatch.setattr(pages, "explanations_of", lambda paper: dict.fromkeys(ids, "since the data is tiny"))
    assert unexplained([full]) == ""
