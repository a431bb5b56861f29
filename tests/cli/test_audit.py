"""`earmark audit` on files, as a table, as JSON, and for people."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from .conftest import Earmark

RULES = [
    ("a", "x BETWEEN 0 AND 9"),
    ("b", "x >= 0 AND x < 10"),
    ("c", "x IN (3, 4)"),
    ("d", "x > 5 AND x < 3"),
    ("e", "x = 50 OR (y > 5 AND y < 3)"),
]

INTEGERS = ("--attribute", "x=integer", "--attribute", "y=integer")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "rules.jsonl"
    file.write_text("".join(json.dumps({"id": one, "condition": text}) + "\n" for one, text in RULES))
    return file


def test_for_people(earmark: Earmark, rules: Path) -> None:
    found = earmark("audit", rules, *INTEGERS)
    assert found.code == 0
    assert found.out.splitlines()[0] == "5 subscriptions, 3 of them redundant"
    assert "'a' = 'b'" in found.out
    assert "'c' is covered by 'a'" in found.out
    assert "'e', clause 2: y > 5 AND y < 3" in found.out
    assert "covered by 'a'" not in earmark("audit", rules, *INTEGERS, "--shown", 0).out


def test_json(earmark: Earmark, rules: Path) -> None:
    (found,) = earmark("audit", rules, *INTEGERS, "--json").rows()
    assert found["duplicates"] == [["a", "b"]]
    assert found["covered"] == [{"id": "c", "by": "a"}]
    assert found["never"] == ["d"]
    assert found["redundant"] == ["d", "b", "c"]


def test_a_learned_number_may_have_a_fraction(earmark: Earmark, rules: Path) -> None:
    """9.5 matches 'b' and not 'a'; and there are numbers between 3 and 5."""
    (found,) = earmark("audit", rules, "--json").rows()
    assert found["duplicates"] == []
    assert found["covered"] == [{"id": "a", "by": "b"}, {"id": "c", "by": "b"}]
    assert found["never"] == ["d"]


def test_tables(earmark: Earmark, rules: Path, tmp_path: Path) -> None:
    assert earmark("audit", rules, *INTEGERS, "-o", "found.parquet").code == 0
    rows = pq.read_table(tmp_path / "found.parquet").to_pylist()
    assert [row["finding"] for row in rows] == ["duplicate", "covered", "never", "never clause"]
    assert earmark("audit", rules, "-o", "found.csv").code == 0
    assert csv.read_csv(tmp_path / "found.csv").column_names == ["finding", "subscription", "other", "clause", "text"]


def test_mistakes_get_a_sentence(earmark: Earmark, rules: Path, tmp_path: Path) -> None:
    assert "missing.csv" in earmark("audit", "missing.csv").sentence
    assert "found.txt" in earmark("audit", rules, "-o", "found.txt").sentence
    assert not list(tmp_path.glob("found*"))
