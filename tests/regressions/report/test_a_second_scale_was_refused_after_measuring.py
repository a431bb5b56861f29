"""A second scale in one folder was refused only after all measuring: results were overwritten, and the folder stuck.

The same went for a result in the folder that could not be read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import earmark.report.run as runner
from earmark.errors import EarmarkError
from earmark.report.papers import chosen


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    runner.run(chosen("vcr", "figure-9"), "tiny", tmp_path, lambda line: None)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def never(*given: Any) -> Any:
    raise AssertionError("measured before the folder was looked at")


@pytest.mark.parametrize("part", ["figure-8", "figure-9"])
def test_another_scale_is_refused_before_measuring(measured: Path, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(measured)
    monkeypatch.setattr(runner, "_steps", never)
    with pytest.raises(EarmarkError, match="has results of scale tiny, expected quick"):
        runner.run(chosen("vcr", part), "quick", measured, never)
    assert contents(measured) == before


def test_a_broken_result_is_named_before_measuring(measured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (measured / "vcr" / "figure-9.json").write_text("{")
    before = contents(measured)
    monkeypatch.setattr(runner, "_steps", never)
    with pytest.raises(EarmarkError, match=r"figure-9\.json is not JSON"):
        runner.run(chosen("vcr", "figure-8"), "tiny", measured, never)
    assert contents(measured) == before


def test_the_same_scale_is_taken(measured: Path) -> None:
    runner.run(chosen("vcr", "figure-8"), "tiny", measured, lambda line: None)
    assert {file.name for file in (measured / "vcr").glob("*.json")} == {"figure-8.json", "figure-9.json"}
