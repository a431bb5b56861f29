"""Simulations reported a bug of earmark where brokers had learned different types, had lost patience, or held something
that nobody wanted any more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from earmark.cli.simulate import simulate
from earmark.errors import EarmarkError
from earmark.overlay.simulation import (
    Crash,
    Cut,
    Faults,
    Plan,
    content_of,
    content_of_rows,
    drawn_faults,
    plan_of,
    summary,
    topology_of,
)
from earmark.overlay.simulation import simulate as run
from earmark.overlay.simulation.plan import PUBLISH, SUBSCRIBE, WITHDRAW, Phase, Request
from earmark.overlay.simulation.variants import VARIANTS

CONDITIONS = ["x > 5", "FALSE", "y = 'a' OR x IS NULL", "d > DATE '2020-01-01'"]


@pytest.mark.parametrize("policy", VARIANTS)
def test_all_brokers_know_the_types_of_all_conditions(policy: str) -> None:
    events = [{"x": "str", "y": 5}, {"x": [1, 2]}, {"x": 7}, {"y": "a"}]
    report = run(plan_of(content_of_rows(CONDITIONS, events), topology_of("figure-1")), policy)
    assert report.verdict.is_exact and report.refused == 2 and report.verdict.delivered == 2
    assert "  refused         2 requests, the first: expected a number for 'x' (declared), got " in summary(report)


def test_intervals_of_files(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("id,condition\na,x > 5\nb,x < 2\n")
    (tmp_path / "e.jsonl").write_text('{"x": {"lo": 1, "hi": 6}}\n{"x": {"lo": 3, "hi": 4}}\n')
    files = ["--subscriptions-file", str(tmp_path / "s.csv"), "--events-file", str(tmp_path / "e.jsonl")]
    done = CliRunner().invoke(simulate, [*files, "--json", "--policies", "flood"], catch_exceptions=False)
    (report,) = json.loads(done.stdout)["runs"]
    assert report["exact"] and report["verdict"]["delivered"] == 2


@pytest.mark.parametrize("name", ["plain", "-"])
def test_a_format_is_said_by_the_name_of_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "s.csv").write_text("id,condition\na,x > 5\n")
    files = ["--subscriptions-file", str(tmp_path / "s.csv"), "--events-file", name]
    with pytest.raises(
        EarmarkError, match=rf"^--events-file: expected a file name that ends in \.parquet.*, got '{name}'$"
    ):
        CliRunner().invoke(simulate, files, catch_exceptions=False)


def test_slow_links_are_not_a_network_without_rest() -> None:
    plan = plan_of(content_of("mics-zipf", 20, 10), topology_of("line:30"))
    report = run(plan, "flood", faults=Faults(delay=60.0))
    assert report.verdict.is_exact and report.in_force.most >= 29 * 60


def test_brokers_wait_for_neighbours_as_long_as_faults_last() -> None:
    plan = plan_of(content_of("mics-zipf", 50, 60), topology_of("figure-1"), mixed=True)
    report = run(plan, "covering", faults=drawn_faults(plan, cuts=40, crashes=20, longest=600.0))
    assert report.verdict.is_exact, report.verdict.examples


def test_a_single_match_is_one_match() -> None:
    report = run(plan_of(content_of_rows(["x > 5"], [{"x": 7}]), topology_of("line:2")), "flood")
    assert " exact: 1 match delivered once, and nothing else, as one central scan says (1 had to be)" in summary(report)


@pytest.mark.parametrize("withdraws", [True, False])
def test_what_is_withdrawn_while_a_publication_is_held_need_not_come(withdraws: bool) -> None:
    """B1 has started again, and holds a publication for B2; what B2 wanted is withdrawn before they meet again."""
    requests = [Request(0, SUBSCRIBE, 0), Request(400_000, PUBLISH, 0), Request(500_000, WITHDRAW, 0)]
    phases = [Phase("mixed", requests[: 3 if withdraws else 2])]
    plan = Plan(topology_of("line:2"), content_of_rows(["x > 5"], [{"x": 7}]), [0, 1], [1], [0], phases)
    faults = Faults(crashes=(Crash(0, 200_000, 300_000, 0),), cuts=(Cut(0, 250_000, 600_000, 0, False),))
    for policy in VARIANTS:
        verdict = run(plan, policy, faults=faults).verdict
        assert verdict.is_exact, verdict.examples
        assert (verdict.expected, verdict.delivered) == ((0, 0) if withdraws else (1, 1))
