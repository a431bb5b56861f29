"""`earmark merge`: a smaller file that `earmark match` reads again, and that misses nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from .conftest import Earmark


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Squares in three clusters, and points."""
    rng = np.random.default_rng(6)
    corner = np.array([[0, 0], [300, 40], [80, 700]])[rng.integers(0, 3, 200)] + rng.integers(0, 40, (200, 2))
    subscriptions, events = tmp_path / "squares.parquet", tmp_path / "points.parquet"
    low = {f"{n}_lo": corner[:, i] for i, n in enumerate("xy")}
    high = {f"{n}_hi": corner[:, i] + 9 for i, n in enumerate("xy")}
    pq.write_table(pa.table({"id": [f"s{i}" for i in range(200)], **low, **high}), subscriptions)
    points = rng.integers(0, 800, (6_000, 2))
    pq.write_table(pa.table({"x": points[:, 0], "y": points[:, 1]}), events)
    return subscriptions, events


def results(earmark: Earmark, *files: Path) -> dict[int, set[Any]]:
    found: dict[int, set[Any]] = {}
    for row in earmark("match", *files, "--json").rows():
        found.setdefault(row["event"], set()).add(row["subscription"])
    return found


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_the_result_is_read_again_and_misses_nothing(
    earmark: Earmark, files: tuple[Path, Path], tmp_path: Path, suffix: str
) -> None:
    subscriptions, events = files
    fewer = tmp_path / f"fewer.{suffix}"
    (told,) = earmark("merge", subscriptions, "--budget", "50%", "--sample", events, "-o", fewer, "--json").rows()
    assert told["subscriptions"] == told["before"] == 200
    assert told["after"] < 100 and told["budget"] == 0.5 and told["never"] == 0
    assert told["events"] == 3_000 and told["decided_on"] == 2_000
    assert told["extra_traffic"] == pytest.approx(told["extra"] / told["wanted"])
    if suffix == "csv":
        rows = [{**r, "stands_for": json.loads(r["stands_for"])} for r in csv.read_csv(fewer).to_pylist()]
    elif suffix == "jsonl":
        rows = [json.loads(line) for line in fewer.read_text().splitlines()]
    else:
        rows = pq.read_table(fewer).to_pylist()
    assert len(rows) == told["after"]
    group_of = {one: row["id"] for row in rows for one in row["stands_for"]}
    assert len(group_of) == 200
    before, after = results(earmark, subscriptions, events), results(earmark, fewer, events)
    for event, found in before.items():
        assert {group_of[one] for one in found} <= after[event]


def test_for_people(earmark: Earmark, files: tuple[Path, Path]) -> None:
    subscriptions, events = files
    found = earmark("merge", subscriptions, "--sample", events, "-o", "fewer.csv")
    first, second = found.out.splitlines()
    assert first.startswith("200 subscriptions -> ") and first.endswith(" conditions")
    assert "measured on 3,000 held-back events" in second and second.endswith("budget 2%")
    found = earmark("merge", subscriptions, "--budget", "0")
    assert found.out.startswith('"id","condition","stands_for"\n"s0",')
    assert found.err.splitlines()[1] == "  extra traffic: none by construction; there was no sample to measure on"
    rows = earmark("merge", subscriptions, "--budget", "0", "--json").rows()
    assert rows[0].keys() == {"id", "condition", "stands_for"}


def test_ranges(earmark: Earmark, files: tuple[Path, Path], tmp_path: Path) -> None:
    subscriptions, events = files
    ask = ("merge", subscriptions, "--ranges", "--sample", events)
    (told,) = earmark(*ask, "--budget", "500%", "-o", "ranges.parquet", "--json").rows()
    table = pq.read_table(tmp_path / "ranges.parquet")
    assert told["after"] == len(table) < told["before"]
    assert table.column_names == ["first", "last"]
    space = json.loads(table.schema.metadata[b"earmark.space"])
    assert space == told["space"] and [axis["attribute"] for axis in space["axes"]] == ["x", "y"]
    first, last = table.column("first").to_numpy(), table.column("last").to_numpy()
    assert (first <= last).all() and (last[:-1] + 1 < first[1:]).all()
    found = earmark(*ask, "--budget", "0", "-o", "ranges.csv")
    assert "ranges\n  over x, y; " in found.out
    (tmp_path / "none.csv").write_text("x,y\n")
    (tmp_path / "one.csv").write_text("id,condition\n1,x IS NULL\n")
    told = earmark("merge", "one.csv", "--ranges", "--sample", "none.csv", "-o", "ranges.csv").out.splitlines()
    assert told == [
        "1 subscription -> 1 range",
        "  over x; 1 range before gaps were closed",
        "  extra traffic: not measured: no sample",
    ]


@pytest.mark.parametrize("also", [(), ("--ranges",)])
def test_types_that_change_within_the_sample(earmark: Earmark, tmp_path: Path, also: tuple[str, ...]) -> None:
    (tmp_path / "wide.csv").write_text("id,condition\n1,y > 3\n2,y < 2\n")
    (tmp_path / "events.csv").write_text("y\n" + "".join(f"{i % 10}\n" for i in range(17_000)) + "1.5\n" * 9)
    ask = ("merge", "wide.csv", "--sample", "events.csv", "-o", "fewer.parquet", "--json")
    (told,) = earmark(*ask, *also).rows()
    assert told["events"] == 8_505 and told["decided_on"] == 5_670


def test_mistakes_get_a_sentence(earmark: Earmark, files: tuple[Path, Path], tmp_path: Path) -> None:
    subscriptions, events = files
    assert "with --sample, or say --budget 0" in earmark("merge", subscriptions).sentence
    assert earmark("merge", subscriptions, "--budget", "0", "--ranges").sentence.endswith("with --sample")
    assert "--seed" in earmark("merge", subscriptions, "--budget", "0", "--seed", "-1").sentence
    for wrong in ("2", "two", "-1%", "nan", ""):
        assert "write 2% or 0.02" in earmark("merge", subscriptions, "--budget", wrong, "--sample", events).sentence
    assert "missing.parquet" in earmark("merge", subscriptions, "--sample", "missing.parquet").sentence
    assert "fewer.txt" in earmark("merge", subscriptions, "--sample", events, "-o", "fewer.txt").sentence
    assert "read from" in earmark("merge", subscriptions, "--sample", events, "-o", events).sentence
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"x": 3}\n{"x": "three"}\n')
    assert "'bad.jsonl', line 2" in earmark("merge", subscriptions, "--sample", "bad.jsonl").sentence
    assert not list(tmp_path.glob("fewer*"))
