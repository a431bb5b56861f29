"""`earmark generate begen`: files that match as often as was asked, and sentences for what cannot be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from earmark.workload.begen import Setting, generate, matching_probability
from earmark.workload.standard import UNUSED

from .conftest import Earmark

SMALL = Setting(subscriptions=600, events=40, dimensions=60, clusters=None, match_probability=0.02, exponent=1.0)
OPTIONS = "--subscriptions 600 --events 40 --dimensions 60 --clusters none --match-percent 2 --zipf 1".split()


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("weights", ["clipped", "none"])
def test_generate_and_rank(earmark: Earmark, kind: str, weights: str) -> None:
    made = earmark("generate", "begen", "data", *OPTIONS, "--format", kind, "--weights", weights)
    assert (made.code, made.out) == (0, f"data/subscriptions.{kind}\ndata/events.{kind}\n")
    data = generate(replace(SMALL, weights=weights))
    files = (f"data/subscriptions.{kind}", f"data/events.{kind}")
    found = earmark("match", *files, "--json").rows()
    assert len(found) == round(matching_probability(data) * 600 * 40) > 300
    used = data.sub_attr != UNUSED
    worth = data.sub_weight.sum(axis=1) if weights == "clipped" else used.sum(axis=1)
    for row in found:
        assert row["score"] == pytest.approx(worth[row["subscription"]])


def test_every_parameter_is_an_option(earmark: Earmark, tmp_path: Path) -> None:
    options = {
        "dimensions": 30,
        "cardinality": 5_000,
        "clusters": 3,
        "cluster_size": 20,
        "subscription_size": 4,
        "event_size": 9,
        "range_size": 5,
        "weights": "printed",
        "seed": 9,
    }
    asked = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    made = earmark("generate", "begen", "d", "--subscriptions", 50, "--events", 5, "--format", "csv", *asked)
    assert made.code == 0
    data = generate(Setting(subscriptions=50, events=5, **options))  # type: ignore[arg-type]
    lines = (tmp_path / "d/subscriptions.csv").read_text().splitlines()
    assert lines[0] == '"id","condition","weights"'
    first = [place for place in range(data.sub_attr.shape[1]) if data.sub_attr[0, place] != UNUSED]
    for place in first:
        attr, lo, hi = (int(c[0, place]) for c in (data.sub_attr, data.sub_lo, data.sub_hi))
        assert f"a{attr} BETWEEN {lo} AND {hi}" in lines[1]
        assert f'""a{attr}"": {data.sub_weight[0, place]}' in lines[1]
    again = earmark("generate", "begen", "e", "--subscriptions", 50, "--events", 5, "--format", "csv", *asked)
    assert again.code == 0
    assert (tmp_path / "e/events.csv").read_text() == (tmp_path / "d/events.csv").read_text()


def test_help_tells_the_defaults(earmark: Earmark) -> None:
    told = earmark("generate", "--help").out
    own = told.partition("Options of begen:")[2]
    for option, default in (
        ("--dimensions N", Setting().dimensions),
        ("--cardinality N", f"{Setting().cardinality:,}"),
        ("--clusters N", Setting().clusters),
        ("--cluster-size N", Setting().cluster_size),
        ("--subscription-size N", Setting().subscription_size),
        ("--event-size N", Setting().event_size),
        ("--match-percent P", 100 * Setting().match_probability),
        ("--zipf EXPONENT", 0),
        ("--range-size N", Setting().range_size),
        ("--weights clipped|printed|none", Setting().weights),
    ):
        text = " ".join(own.partition(option)[2].partition("]")[0].split())
        assert text.endswith(f"[default: {default}"), option
        assert option not in told.partition("Options of begen:")[0]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["w2", "data", "--zipf", "1"], "--zipf is an option of begen; w2 has no parameters"),
        (["w2", "data", "--cluster-size", "1"], "--cluster-size is an option of begen"),
        (["w2", "data", "--events", "1001"], "w2 has 1,000 events, so --events cannot be 1,001"),
        (["begen", "data", "--clusters", "0"], "'0' is neither a number from 1 nor none"),
        (["begen", "data", "--clusters", "few"], "'few' is neither a number from 1 nor none"),
        (["begen", "data", "--dimensions", "9"], "expected at least 18 dimensions, got 9"),
        (["begen", "data", "--match-percent", "101"], "101.0 is not in the range"),
        (["begen", "data", "--subscription-size", "20"], "subscription_size must be at most event_size"),
        (["begen", "data", "--weights", "heavy"], "'heavy' is not one of 'clipped', 'printed', 'none'"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_mistakes_get_a_sentence(earmark: Earmark, tmp_path: Path, asked: list[str], told: str) -> None:
    assert told in earmark("generate", *asked).sentence
    assert not (tmp_path / "data").exists()
