"""The places of "saved on average" are called "BE* over k-index": a citation of one was split there, and refused."""

from __future__ import annotations

from pathlib import Path

from earmark.report.citations import cite
from earmark.report.results import read

FIGURE_6 = Path(__file__).parents[3] / "docs" / "results" / "be-star" / "figure-6.json"


def test_place_with_over_in_its_name_is_cited() -> None:
    assert float(cite("be-star/figure-6 > saved on average; uniform; BE* over k-index", [read(FIGURE_6)])) > 0
