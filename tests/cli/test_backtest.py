"""`earmark backtest` on files: counts, shares, samples, and what is told about mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from .conftest import Earmark

RULES = [("old", "age > 60"), ("oslo", "city = 'Oslo'"), ("nobody", "age > 200")]
EVENTS = [{"who": f"v{i}", "age": i % 80, "city": "Oslo" if i % 3 == 0 else "Lima"} for i in range(5_000)]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    rules, events = tmp_path / "rules.jsonl", tmp_path / "events.jsonl"
    rules.write_text("".join(json.dumps({"id": one, "condition": text}) + "\n" for one, text in RULES))
    events.write_text("".join(json.dumps(row) + "\n" for row in EVENTS))
    return rules, events


def test_counts_shares_and_the_first_events(earmark: Earmark, files: tuple[Path, Path]) -> None:
    rows = earmark("backtest", *files, "--json").rows()
    old = [i for i, row in enumerate(EVENTS) if int(str(row["age"])) > 60]
    oslo = [i for i, row in enumerate(EVENTS) if row["city"] == "Oslo"]
    assert rows == [
        {"subscription": "old", "matches": len(old), "share": len(old) / 5_000, "sample": old[:3]},
        {"subscription": "oslo", "matches": len(oslo), "share": len(oslo) / 5_000, "sample": oslo[:3]},
        {"subscription": "nobody", "matches": 0, "share": 0.0, "sample": []},
    ]


def test_one_condition(earmark: Earmark, files: tuple[Path, Path]) -> None:
    found = earmark("backtest", "--condition", "age = 79", files[1], "--event-id", "who", "--sample", 2)
    assert found.out.splitlines() == [
        '"subscription","matches","share","sample"',
        '"condition",62,0.0124,"[""v79"", ""v159""]"',
    ]


def test_files_out(earmark: Earmark, files: tuple[Path, Path], tmp_path: Path) -> None:
    (told,) = earmark("backtest", *files, "-o", "found.parquet", "--json").rows()
    assert (told["events"], told["subscriptions"]) == (5_000, 3)
    assert pq.read_table(tmp_path / "found.parquet").column_names == ["subscription", "matches", "share", "sample"]
    assert earmark("backtest", *files, "-o", "found.csv", "--sample", 0).code == 0
    assert (tmp_path / "found.csv").read_text().splitlines()[0] == '"subscription","matches","share"'


def test_one_event_and_one_result(earmark: Earmark, tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"age": 31}\n')
    found = earmark("backtest", "--condition", "age > 30", "one.jsonl")
    summary = found.err.splitlines()[-1]
    assert summary.startswith("loaded 1 subscription in ") and summary.endswith(" s: 1 result")


def test_no_events(earmark: Earmark, files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    rows = earmark("backtest", files[0], "none.jsonl", "--json").rows()
    assert [(row["matches"], row["share"]) for row in rows] == [(0, None)] * 3


def test_mistakes_get_a_sentence(earmark: Earmark, files: tuple[Path, Path]) -> None:
    assert "SUBSCRIPTIONS and EVENTS, got 1" in earmark("backtest", files[1]).sentence
    assert "EVENTS alone" in earmark("backtest", "--condition", "age > 1", *files).sentence
    assert "missing.csv" in earmark("backtest", files[0], "missing.csv").sentence
    assert "age >" in earmark("backtest", "--condition", "age >", files[1]).sentence
    assert "found.txt" in earmark("backtest", *files, "-o", "found.txt").sentence


def test_backtest_at_a_time(earmark: Earmark, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("id,condition,ends\na,age > 1,2020-01-01\nb,age > 1,\n")
    (tmp_path / "one.jsonl").write_text('{"age": 5}\n')
    for at, expected in (("2019-12-31", 1), ("2020-01-01", 0)):
        rows = earmark("backtest", "old.csv", "one.jsonl", "--at", at, "--json").rows()
        assert [row["matches"] for row in rows] == [expected, 1]
