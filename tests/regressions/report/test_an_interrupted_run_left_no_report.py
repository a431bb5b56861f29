"""A run that was interrupted left results and no report."""

from __future__ import annotations

from pathlib import Path

import pytest

import earmark.report.run as runner
from earmark.report.papers import chosen


def test_an_interrupted_run_reports_what_it_measured(tmp_path: Path) -> None:
    def interrupt(line: str) -> None:
        if "Figure 9" in line:
            raise KeyboardInterrupt

    experiments = [*chosen("vcr", "figure-8"), *chosen("vcr", "figure-9")]
    with pytest.raises(KeyboardInterrupt):
        runner.run(experiments, "tiny", tmp_path, interrupt)
    report = (tmp_path / "report.html").read_text()
    assert 'id="vcr/figure-8"' in report and 'id="vcr/figure-9"' in report


def test_a_run_that_measured_nothing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "_steps", fail)
    with pytest.raises(KeyboardInterrupt):
        runner.run(chosen("vcr", "figure-9"), "tiny", tmp_path / "new", lambda line: None)
    assert not (tmp_path / "new").exists()
