"""`earmark paper list` printed labels ("Exact subsumption") that --experiment refused, run together with titles."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from earmark.cli.paper import paper
from earmark.report.papers import chosen

EVERY = chosen("all")


def test_every_listed_name_chooses_its_experiment() -> None:
    printed = CliRunner().invoke(paper, ["list"], catch_exceptions=False).output
    rows = [line.split(maxsplit=1) for line in printed.splitlines() if line.startswith("  ")]
    assert rows == [[experiment.name, experiment.title] for experiment in EVERY]
    assert all("  " in line.strip() for line in printed.splitlines())


@pytest.mark.parametrize("experiment", EVERY, ids=lambda experiment: experiment.key)
def test_a_label_chooses_it_as_well(experiment: object) -> None:
    assert chosen(experiment.paper, experiment.label) == [experiment]  # type: ignore[attr-defined]
