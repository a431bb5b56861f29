"""The README is also the page on the package index, where relative links lead nowhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)]+)\)")
HOME = re.compile(
    r"https://(?:github\.com|raw\.githubusercontent\.com)/earmark-match/earmark/(?:(?:blob|tree)/)?main/(.+)"
)


def test_links_are_absolute_and_lead_to_files() -> None:
    targets = LINK.findall((ROOT / "README.md").read_text())
    assert len(targets) > 10
    for target in targets:
        found = HOME.fullmatch(target)
        assert found, f"{target} does not work outside of the repository"
        assert (ROOT / found[1]).exists(), target


def test_no_html() -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert not re.search(r"<[a-z]", text)


def test_project_links_lead_to_files() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"Documentation", "Changelog", "Source"} <= set(project["urls"])
    for url in project["urls"].values():
        found = HOME.fullmatch(url)
        assert url == "https://github.com/earmark-match/earmark" or (found and (ROOT / found[1]).exists()), url


def test_versions_agree() -> None:
    """What installs, what is said and what is tried are the same Pythons."""
    from tests.unit.test_versions import SUPPORTED

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={SUPPORTED[0]}"
    said = [
        c.rpartition(" ")[2] for c in project["classifiers"] if c.startswith("Programming Language :: Python :: 3.")
    ]
    assert said == list(SUPPORTED)
    for page in ("README.md", "CONTRIBUTING.md"):
        assert f"{SUPPORTED[0]} to {SUPPORTED[-1]}" in (ROOT / page).read_text(), page
