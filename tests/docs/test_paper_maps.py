"""The pages of the papers: every file and test that they name exists, and every experiment has its block."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from earmark.report.papers import PAPERS, Paper, experiments_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "papers"
SOURCE = ROOT / "src" / "earmark"
BASE = re.compile(r"[Ff]iles are in `([^`]+)`")
TESTS = re.compile(r"[Tt]ests (?:are )?in\s+`([^`]+)`")
NAME = re.compile(r"`([^`]+)`")
HEAD = "## Where each part of the paper is"


def map_of(paper: Paper) -> str:
    text = (DOCS / paper.page).read_text(encoding="utf-8")
    assert HEAD in text, f"{paper.page} does not say where each part of the paper is"
    return text.split(HEAD, 1)[1].split("\n## ", 1)[0]


def rows_of(part: str) -> list[list[str]]:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("| ")
    ]
    return rows[1:]


def functions_of(file: Path) -> set[str]:
    return set(re.findall(r"^ *def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_files_and_tests_of_a_page_exist(paper: Paper) -> None:
    part = map_of(paper)
    folder, tests = ROOT / BASE.search(part)[1], ROOT / TESTS.search(part)[1]  # type: ignore[index]
    rows = rows_of(part)
    assert len(rows) >= 10
    for what, file, test in rows:
        for name in NAME.findall(file):
            if "/" in name or name.endswith((".py", ".toml")):
                assert any((base / name).is_file() for base in (folder, SOURCE, ROOT)), f"{what}: no file {name}"
        names = NAME.findall(test)
        homes = [tests, *(ROOT / name for name in names if "/" in name)]
        assert all(home.exists() for home in homes), f"{what}: {names}"
        known = set().union(*(functions_of(home) for home in homes if home.is_file()))
        missing = {name for name in names if "/" not in name} - known
        assert not missing, f"{what}: no tests {missing}"


def test_functions_named_beside_a_file_exist() -> None:
    for paper in PAPERS:
        part = map_of(paper)
        folder = ROOT / BASE.search(part)[1]  # type: ignore[index]
        for what, files, _ in rows_of(part):
            for name, functions in re.findall(r"`([^`]+\.py)` \(((?:`\w+`(?:, )?)+)\)", files):
                file = next(base / name for base in (folder, SOURCE, ROOT) if (base / name).is_file())
                text = file.read_text(encoding="utf-8")
                for function in NAME.findall(functions):
                    assert re.search(rf"^ *(def|class) {function}\b", text, re.MULTILINE), f"{what}: no {function}"


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_every_experiment_has_its_block(paper: Paper) -> None:
    text = (DOCS / paper.page).read_text(encoding="utf-8")
    for experiment in experiments_of(paper.name):
        assert f"<!-- results: {experiment.key} -->" in text, f"{paper.page} has no block for {experiment.key}"
