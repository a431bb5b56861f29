"""A share of 0.99988, of the cells that uniform subscriptions fill, was cited as "100.0 %": all of them."""

from __future__ import annotations

from pathlib import Path

from earmark.report.citations import cite
from earmark.report.results import read

FIGURE_11 = Path(__file__).parents[3] / "docs" / "results" / "mics" / "figure-11.json"


def test_a_share_below_all_is_cited_as_less_than_100_percent() -> None:
    shown = cite("as percent: mics/figure-11 > uniform; 2-d; 150,000; share of all cells", [read(FIGURE_11)])
    assert 99.9 < float(shown.removesuffix(" %")) < 100
