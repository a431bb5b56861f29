"""Every `>>>` example in README and docs runs and prints what it says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(p.relative_to(ROOT) for p in [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_examples_of_a_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=OPTIONS)
    names: dict[str, object] = {}
    for block in BLOCK.finditer(text):
        line = text[: block.start()].count("\n") + 1
        example = parser.get_doctest(block[1], names, str(page), str(page), line)
        report: list[str] = []
        runner.run(example, out=report.append, clear_globs=False)
        names = example.globs
        assert not runner.failures, "".join(report)


def test_no_page_has_a_gap_left_to_fill() -> None:
    for page in [*PAGES, Path("CONTRIBUTING.md"), Path("CHANGELOG.md")]:
        assert "@@" not in (ROOT / page).read_text(), page


def test_the_package_s_own_example() -> None:
    import earmark

    failed, tried = doctest.testmod(earmark)
    assert tried and not failed


def test_the_table_of_nulls_is_true() -> None:
    """Each row of the NULL table in docs/language.md, tried."""
    import earmark

    text = (ROOT / "docs" / "language.md").read_text()
    table = text[text.index("| condition | a = 5 |") :].split("\n\n")[0].splitlines()[2:]
    assert len(table) > 15
    for row in table:
        condition, *truths = (cell.strip() for cell in row.strip("|").split(" | "))
        condition = condition.strip("` ")
        for truth, event in zip(truths, ({"a": 5.0}, {}, {"a": float("nan")}), strict=True):
            got = {}
            for name, sql in (("T", condition), ("F", f"NOT ({condition})")):
                m = earmark.Matcher(attributes={"a": "float"})
                m.add("it", sql)
                got[name] = bool(m.match(event))
            assert got == {"T": truth.strip("| ") == "T", "F": truth.strip("| ") == "F"}, (condition, event)


def test_modules_with_doctests() -> None:
    import importlib

    keys = ("keys.schema", "keys.numbers", "keys.sets", "keys.strings")
    for name in (*keys, "language.literals", "language.predicate", "segment.arrays", "flat.arrays"):
        failed, tried = doctest.testmod(importlib.import_module(f"earmark.{name}"))
        assert tried and not failed, name
