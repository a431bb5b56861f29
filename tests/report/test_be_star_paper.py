"""The experiments of be-star-tree.txt: every column of Table III, right answers, verdicts that depend on them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from earmark.index.be_star_tree import BEStarTree
from earmark.report.claims import claims_of, judge
from earmark.report.experiment import OK, SCALES, WRONG, Measurement
from earmark.report.papers import chosen
from earmark.report.papers.be_star import contenders, spaces
from earmark.report.rivals.enumerated import Enumerated, postings_of
from earmark.report.run import measure
from earmark.workload.begen import Setting, generate

CLAIMS = {claim.id: claim for claim in claims_of("be-star")}


def measured(part: str) -> Measurement:
    (experiment,) = chosen("be-star", part)
    return measure(experiment, "tiny")


def test_all_eleven_columns_of_table_3_are_measured() -> None:
    panels = {
        "figure-6": ("cardinality, Zipf", "dimensions, Zipf", "subscription size, Zipf"),
        "figure-7": ("clusters, Zipf", "cluster size, Zipf"),
        "figure-8": ("Zipf", "author", "title"),
        "figure-9": ("Zipf", "author", "title"),
    }
    assert sum(map(len, panels.values())) == 11
    for part, names in panels.items():
        (experiment,) = chosen("be-star", part)
        assert set(names) <= {panel.name for panel in experiment.panels}


def test_full_sizes_are_those_of_the_paper() -> None:
    scales = {
        part: chosen("be-star", part)[0].scales["full"] for part in ("table-2", "figure-6", "figure-8", "figure-9")
    }
    assert list(scales["table-2"]["sizes"].values()) == [1_000_000, 1_000_000, 760_000, 250_000]
    assert scales["figure-6"]["large"] == scales["figure-8"]["uniform"][-1] == 1_000_000
    assert scales["figure-8"]["author"][-1] == 760_000 and scales["figure-8"]["title"][-1] == 250_000
    assert list(scales["figure-9"]["sizes"].values()) == [1_000_000, 1_000_000, 400_000, 150_000]
    for experiment in chosen("be-star"):
        assert all(scale in experiment.seconds for scale in SCALES if scale != "tiny")


def test_a_slow_tree_fails_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BEStarTree.match_many

    def slow(tree: BEStarTree, *given: Any) -> Any:
        end = time.thread_time() + 0.01
        while not tree.rigid and time.thread_time() < end:
            pass
        return right(tree, *given)

    monkeypatch.setattr(BEStarTree, "match_many", slow)
    found = measured("figure-7")
    for name in ("be-star-first-clusters-zipf", "average-be-uniform-7", "clustered-up-to-77"):
        assert not judge(CLAIMS[name], found).holds
    assert {point.status for series in found.series for point in series.points} == {OK}


def test_a_tree_that_loses_a_match_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BEStarTree.top_k_many

    def forgetful(*given: Any) -> Any:
        start, slots, scores = right(*given)
        return np.minimum(start, len(slots) - 1), slots[:-1], scores[:-1]

    monkeypatch.setattr(BEStarTree, "top_k_many", forgetful)
    found = measured("figure-9")
    assert {point.status for point in found.find("author", "BE* (1)").points} == {WRONG}
    assert {point.status for point in found.find("author", "BE*").points} == {OK}
    claim = CLAIMS["probability-best-1-first-author"]
    assert "differ from the scan's" in str(judge(claim, found))
    assert "BE* (1)" not in {series.name for series in found.of_panel("most saved by the best only")}


def test_capacities_are_those_of_table_2a() -> None:
    assert [contenders.capacity_of(p, factor=1) for p in (0.001, 0.01, 0.09, 0.1, 0.5)] == [5, 20, 20, 160, 160]
    assert contenders.capacity_of(0.001) == 16 * 5


def test_enumerating_index_answers_as_the_scan_and_counts_its_postings() -> None:
    workload = generate(Setting(subscriptions=300, events=20, match_probability=0.05))
    index = Enumerated.build(workload)
    assert len(index.posting) == postings_of(workload)
    assert spaces.disagreements(index, workload) == 0
    broken = index._replace(posting=index.posting[::-1].copy())
    assert spaces.disagreements(broken, workload) > 0


def test_a_tree_that_grew_slow_fails_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(BEStarTree):
        def match_many(self, *given: Any) -> Any:
            end = time.thread_time() + 0.01
            while time.thread_time() < end:
                pass
            return super().match_many(*given)

    grown = {contenders.BE_STAR: lambda table, **options: Slow.build(table, bulk=False, **options)}
    monkeypatch.setattr(contenders, "BUILDERS", contenders.BUILDERS | grown)
    assert not judge(CLAIMS["dynamic-be-star"], measured("dynamic")).holds


def test_what_adapting_can_gain_is_recorded() -> None:
    for point in measured("adaptation").find("adapting", "adapted").points:
        assert point.counts["share with a better place"] <= point.counts["share in lossy leaves"] <= 1
        assert {"events that visit their leaf, %", "events that would elsewhere, %"} <= set(point.counts)


def test_an_adaptation_that_builds_again_fails_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = CLAIMS["adaptation-builds-nothing"]
    assert judge(claim, measured("adaptation")).holds
    right = BEStarTree.adapt
    monkeypatch.setattr(BEStarTree, "adapt", lambda *given: right(*given)._replace(clustered=7))
    assert not judge(claim, measured("adaptation")).holds
