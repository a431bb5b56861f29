"""Results of two seeds shared a folder, and a report named the machine and the versions of its first result only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from earmark.errors import EarmarkError
from earmark.report import results
from earmark.report.experiment import Measurement
from earmark.report.html import page
from earmark.report.pages import generated
from earmark.report.papers import chosen
from earmark.report.run import measure


@pytest.fixture(scope="module")
def figure_9() -> Measurement:
    (experiment,) = chosen("vcr", "figure-9")
    return measure(experiment, "tiny")


def test_another_seed_is_refused(figure_9: Measurement, tmp_path: Path) -> None:
    results.write(figure_9, tmp_path)
    keys = ["vcr/figure-8", "vcr/figure-9"]
    assert results.check_folder(tmp_path, keys, "tiny", figure_9.seed) == [figure_9]
    with pytest.raises(EarmarkError, match="has results of seed 2003, expected 4: results of two seeds"):
        results.check_folder(tmp_path, keys, "tiny", 4)
    results.write(replace(figure_9, name="figure-8", seed=4), tmp_path)
    with pytest.raises(EarmarkError, match="expected one seed per folder"):
        results.read_all(tmp_path, keys)


def test_all_machines_and_versions_are_named(figure_9: Measurement) -> None:
    versions: dict[str, Any] = figure_9.machine["versions"] | {"numpy": "0.9", "numba": "0.8"}
    other = figure_9.machine | {"processor": "Z80", "versions": versions}
    both = [figure_9, replace(figure_9, name="figure-8", machine=other)]
    for text in (page(both, {}, {}), generated("all", both)):
        assert "Z80" in text and "numpy" in text
        assert f"numpy {figure_9.machine['versions']['numpy']} or 0.9" in text
        assert text.count("(on ") == 2
    assert "(on " not in generated("all", [figure_9])
