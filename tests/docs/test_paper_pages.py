"""The numbers of the papers' pages are those of the committed results."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from earmark.report.claims import verdicts
from earmark.report.explanations import explained, explanations_of, typed_numbers
from earmark.report.pages import BLOCK, CITED, NUMBER, filled, pages
from earmark.report.papers import PAPERS, Paper, all_keys
from earmark.report.results import read_all

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", pages(DOCS), ids=lambda page: page.name)
def test_page_is_what_the_results_generate(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert filled(text, read_all(DOCS / "results", all_keys())) == text, "run python scripts/paper_pages.py"


def test_claims_that_fail_are_explained_and_no_others() -> None:
    failing: dict[str, set[str]] = {paper.name: set() for paper in PAPERS}
    for measurement in read_all(DOCS / "results", all_keys()):
        failing[measurement.paper] |= {verdict.claim.id for verdict in verdicts(measurement) if not verdict.holds}
    for paper, ids in failing.items():
        assert set(explanations_of(paper)) == ids, f"explanations of {paper}"


def test_the_report_has_every_verdict_and_explanation() -> None:
    report = (DOCS / "results" / "report.html").read_text(encoding="utf-8")
    assert "earmark: five papers, full run" in report
    measurements = read_all(DOCS / "results", all_keys())
    reasons = explained(measurements)
    for measurement in measurements:
        for verdict in verdicts(measurement):
            why = "" if verdict.holds else reasons[f"{measurement.paper}/{verdict.claim.id}"]
            for text in (verdict.claim.text, str(verdict), why):
                assert html.escape(text).replace(" %", "\u00a0%") in report, (
                    "run python scripts/paper_pages.py --report"
                )


@pytest.mark.parametrize("paper", [paper.name for paper in PAPERS])
def test_no_measured_number_of_an_explanation_is_typed(paper: str) -> None:
    written = explanations_of(paper)
    typed = {
        verdict.claim.id: found
        for measurement in read_all(DOCS / "results", all_keys())
        if measurement.paper == paper
        for verdict in verdicts(measurement)
        if verdict.claim.id in written
        and (found := typed_numbers(written[verdict.claim.id], verdict.claim, measurement))
    }
    assert not typed, "write placeholders: src/earmark/report/citations.py"


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_no_ratio_and_no_time_in_the_prose_of_a_page_is_typed(paper: Paper) -> None:
    prose = (DOCS / "papers" / paper.page).read_text(encoding="utf-8")
    for generated in (BLOCK, NUMBER, CITED):
        prose = generated.sub("", prose)
    assert not re.findall(r".*\d(?:×| (?:µs|ms)\b).*", prose), "cite it: src/earmark/report/citations.py"
