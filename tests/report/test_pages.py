"""The report and the generated pages: what a reader can reach, tell apart and count."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest

from earmark.errors import EarmarkError
from earmark.report.claims import KINDS, tally, verdicts
from earmark.report.claims.words import times
from earmark.report.experiment import Measurement
from earmark.report.html import page
from earmark.report.pages import filled, generated
from earmark.report.papers import all_keys, chosen
from earmark.report.plots import draw, drawn_panels
from earmark.report.results import read_all
from earmark.report.run import measure

RESULTS = Path(__file__).parents[2] / "docs" / "results"
COMMITTED = read_all(RESULTS, all_keys())


@pytest.fixture(scope="module")
def figure_7() -> Measurement:
    (experiment,) = chosen("vcr", "figure-7")
    return measure(experiment, "tiny")


def test_contents_link_to_every_experiment() -> None:
    text = page(COMMITTED, {}, {})
    contents = re.search("<nav>(.*?)</nav>", text, re.DOTALL)
    assert contents is not None
    targets = re.findall('href="#([^"]+)"', contents[1])
    assert set(targets) >= {measurement.key for measurement in COMMITTED}
    assert all(f'id="{target}"' in text for target in targets)


def test_images_can_be_told_apart(figure_7: Measurement, tmp_path: Path) -> None:
    text = page([figure_7], {figure_7.key: draw(figure_7, tmp_path)}, {})
    names = re.findall('<img alt="([^"]+)"', text)
    panels = [panel.name for panel in drawn_panels(figure_7)]
    assert len(set(names)) == len(names) == len(panels)
    assert all(html.escape(panel) in name for panel, name in zip(panels, names, strict=True))


def test_panels_fit_a_narrow_screen(figure_7: Measurement) -> None:
    assert "minmax(min(20rem, 100%), 1fr)" in page([figure_7], {}, {})


def test_the_overview_has_the_first_day_and_the_last() -> None:
    first, last = (
        replace(COMMITTED[0], date="2026-11-18T21:50:00+00:00"),
        replace(COMMITTED[1], date="2026-11-19T06:55:00+00:00"),
    )
    assert "scale `full`, 2026-11-18 to 2026-11-19; " in generated("all", [last, first])
    assert "scale `full`, 2026-11-18; " in generated("all", [first])


def test_claims_of_the_papers_and_our_own_are_counted_apart() -> None:
    counted = tally([verdict for measurement in COMMITTED for verdict in verdicts(measurement)])
    report, overview = page(COMMITTED, {}, {}), generated("all", COMMITTED)
    assert set(counted) == set(KINDS)
    assert f"{counted['paper']} claims of the papers hold; {counted['added']} added after the run, " in report
    assert f", {counted['ours']} bars of our own." in report
    assert f"| {' | '.join(map(str, counted.values()))} |" in overview


def test_every_commit_that_measured_is_named_with_its_experiments() -> None:
    for text in (page(COMMITTED, {}, {}), generated("all", COMMITTED)):
        for commit in {measurement.machine["commit"] for measurement in COMMITTED}:
            (line,) = (part for part in re.split(r"\n|<br>|</dd>", text) if f"commit {commit}, " in part)
            keys = {measurement.key for measurement in COMMITTED if measurement.machine["commit"] == commit}
            assert all(re.search(rf"{key}\b", line) for key in keys)


def test_what_differs_is_what_the_experiment_says_now(figure_7: Measurement) -> None:
    old = replace(figure_7, differs="an older remark")
    assert "an older remark" not in page([old], {}, {}) + generated("vcr/figure-7", [old])
    assert "libspatialindex" in generated("vcr/figure-7", [old])


def test_a_sentence_cites_the_ratio_of_two_series(figure_7: Measurement) -> None:
    cited = "number: ratio: vcr/figure-7 > search time, uniform; scan; 300\nover search time, uniform; R-tree; 300"
    (scan, tree) = (figure_7.find("search time, uniform", name).at(300) for name in ("scan", "R-tree"))
    assert scan is not None and tree is not None
    sentence = f"It takes <!-- {cited} -->long<!-- end of number --> as long."
    assert filled(sentence, [figure_7]) == sentence.replace("long<", f"{times(scan.median / tree.median)}<", 1)
    assert "-->not in the committed run<!--" in filled(sentence, [])
    for right, wrong in (("300 -->", "301 -->"), ("R-tree", "Q-tree")):
        with pytest.raises(EarmarkError, match="vcr/figure-7"):
            filled(sentence.replace(right, wrong), [figure_7])
    with pytest.raises(EarmarkError, match="figure-77"):
        filled(sentence.replace("figure-7", "figure-77"), [figure_7])
