"""Every command on every format, against what the library says."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from earmark import Matcher, __version__
from earmark.cli.app import main
from earmark.cli.generate import NAMES
from earmark.workload.standard import WORKLOADS, Workload

from .conftest import Earmark

FORMATS = ["parquet", "csv", "jsonl"]
ADS: list[dict[str, Any]] = [
    {"id": "a", "condition": "age > 30", "weights": {"age": 0.5}, "score": 1.0, "tags": {"tenant": "x"}},
    {"id": "b", "condition": "city = 'Oslo' AND age < 50", "weights": None, "score": 2.0, "tags": None},
    {"id": "ü", "condition": "city LIKE 'R%' OR age IS NULL", "weights": {"city": 0.25}, "score": 0.0, "tags": {}},
]
VISITORS: list[dict[str, Any]] = [
    {"who": "u", "age": 40, "city": "Oslo"},
    {"who": "v", "age": 20, "city": ""},
    {"who": "w", "age": None, "city": "Rome"},
    {"who": "x", "age": 2**53 + 1, "city": None},
]


def matcher() -> Matcher:
    made = Matcher()
    made.add_many(ADS)
    return made


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Rows as a file; weights and tags nest where the format can nest."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n" for row in rows))
        return path
    if path.suffix == ".csv":
        nested = ("weights", "tags", "ranges")
        rows = [{k: json.dumps(v) if v and k in nested else v for k, v in row.items()} for row in rows]
        rows = [{k: None if k in nested and not v else v for k, v in row.items()} for row in rows]
        csv.write_csv(pa.Table.from_pylist(rows), path)
        return path
    types = {"weights": pa.map_(pa.string(), pa.float64()), "tags": pa.map_(pa.string(), pa.string())}
    columns = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        columns[name] = (
            pa.array([None if v is None else list(v.items()) for v in values], types[name])
            if (name in types)
            else pa.array(values)
        )
    pq.write_table(pa.table(columns), path)
    return path


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    table = pq.read_table(path) if path.suffix == ".parquet" else csv.read_csv(path)
    return table.to_pylist()  # type: ignore[no-any-return]


# --- match and top-k -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("events", FORMATS)
@pytest.mark.parametrize("subscriptions", FORMATS)
def test_match_reads_every_format(earmark: Earmark, tmp_path: Path, subscriptions: str, events: str) -> None:
    ads = write(tmp_path / f"ads.{subscriptions}", ADS)
    visitors = write(tmp_path / f"visitors.{events}", VISITORS)
    found = earmark("match", ads, visitors, "--json")
    assert found.rows() == matcher().match_many(VISITORS).to_pylist()
    assert found.err == ""


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("command", ["match", "top-k"])
def test_results_in_every_format(earmark: Earmark, tmp_path: Path, command: str, output: str) -> None:
    write(tmp_path / "ads.csv", ADS)
    write(tmp_path / "visitors.csv", VISITORS)
    target = tmp_path / f"hits.{output}"
    found = earmark(command, "ads.csv", "visitors.csv", "-o", target, "--json")
    m = matcher()
    wanted = (m.match_many if command == "match" else m.top_k_many)(VISITORS).to_pylist()
    assert read(target) == wanted
    (summary,) = found.rows()
    assert (summary["events"], summary["results"], summary["subscriptions"]) == (4, len(wanted), 3)
    assert summary["load_seconds"] > 0 and summary["match_seconds"] > 0
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["ads.csv", "visitors.csv", target.name])
    assert target.stat().st_mode & 0o777 == (tmp_path / "ads.csv").stat().st_mode & 0o777


def test_csv_on_stdout_and_a_summary_on_stderr(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", ADS)
    write(tmp_path / "visitors.jsonl", VISITORS)
    found = earmark("match", "ads.csv", "visitors.jsonl")
    (tmp_path / "out.csv").write_text(found.out)
    assert read(tmp_path / "out.csv") == matcher().match_many(VISITORS).to_pylist()
    assert re.fullmatch(r"loaded 3 subscriptions in \d+\.\d s; 4 events in \d+\.\d s: 4 results\n", found.err)


@pytest.mark.parametrize("form", ["ranges", "bounds"])
@pytest.mark.parametrize("kind", FORMATS)
def test_ready_made_bounds(earmark: Earmark, tmp_path: Path, kind: str, form: str) -> None:
    if form == "ranges":
        rows = [
            {"id": 7, "ranges": [{"attribute": "age", "lo": 30, "hi": None}], "score": 1.5},
            {"id": 8, "ranges": [{"attribute": "age", "lo": 18, "hi": 25}, {"attribute": "n", "lo": 1, "hi": 1}]},
        ]
        rows[1]["score"] = None
    else:
        rows = [
            {"id": 7, "age_lo": 30, "age_hi": None, "n_lo": None, "n_hi": None, "score": 1.5},
            {"id": 8, "age_lo": 18, "age_hi": 25, "n_lo": 1, "n_hi": 1, "score": None},
        ]
    write(tmp_path / f"s.{kind}", rows)
    write(tmp_path / "e.parquet", [{"age": 30, "n": 1}, {"age": 20, "n": 1}, {"age": 20, "n": 2}])
    assert earmark("match", f"s.{kind}", "e.parquet", "--json").rows() == [
        {"event": 0, "subscription": 7, "score": 2.5},
        {"event": 1, "subscription": 8, "score": 2.0},
    ]


def test_a_saved_folder(earmark: Earmark, tmp_path: Path) -> None:
    matcher().save(tmp_path / "ads.earmark")
    write(tmp_path / "e.jsonl", VISITORS)
    assert earmark("match", "ads.earmark", "e.jsonl", "--json").rows() == matcher().match_many(VISITORS).to_pylist()
    assert "has its own types" in earmark("match", "ads.earmark", "e.jsonl", "--attribute", "age=float").sentence
    assert "has its own types" in earmark("match", "ads.earmark", "e.jsonl", "--zone", "UTC").sentence


def test_scope_weight_mode_k_and_event_id(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "ads.jsonl", ADS)
    m = matcher()
    for kind in FORMATS:
        write(tmp_path / f"e.{kind}", VISITORS)
        scoped = earmark("match", "ads.jsonl", f"e.{kind}", "--scope", "tenant=x", "--json").rows()
        assert scoped == m.match_many(VISITORS, scope={"tenant": "x"}).to_pylist() != []
        options = ("-k", 2, "--mode", "relaxed", "--weight", "age=3", "--weight", "city=0.5")
        ranked = earmark("top-k", "ads.jsonl", f"e.{kind}", *options, "--event-id", "who", "--json").rows()
        wanted = m.top_k_many(VISITORS, 2, mode="relaxed", weights={"age": 3, "city": 0.5}).to_pylist()
        assert ranked == [{**row, "event": VISITORS[row["event"]]["who"]} for row in wanted]


@pytest.mark.parametrize("command", ["match", "top-k"])
def test_threads(earmark: Earmark, tmp_path: Path, command: str) -> None:
    write(tmp_path / "ads.jsonl", ADS)
    write(tmp_path / "e.jsonl", VISITORS * 50)
    one, several = (earmark(command, "ads.jsonl", "e.jsonl", "--threads", n, "--json").rows() for n in (1, 3))
    assert one == several != []


def test_event_ids_keep_their_type(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", ADS)
    for kind, wanted in (("parquet", [10, 11]), ("jsonl", [10, 11]), ("csv", ["10", "11"])):
        write(tmp_path / f"e.{kind}", [{"n": 10, "age": 31}, {"n": 11, "age": 32}])
        rows = earmark("match", "ads.csv", f"e.{kind}", "--event-id", "n", "--json").rows()
        assert [row["event"] for row in rows] == wanted


def test_declared_types_and_zone(earmark: Earmark, tmp_path: Path) -> None:
    rows = [
        {"id": 1, "condition": "price = 0.10"},
        {"id": 2, "condition": "day >= '2024-02-01'"},
        {"id": 3, "condition": "at = TIMESTAMP '2024-06-01T10:00:00Z'"},
    ]
    types = [f"--attribute={pair}" for pair in ("price=decimal(9,2)", "day=date", "at=timestamp")]
    events = [
        {"price": "0.10", "day": "2024-02-01", "at": "2024-06-01 12:00:00"},
        {"price": "0.1", "day": "2024-1-5", "at": "2024-06-01T12:00"},
        {"price": "7", "day": None, "at": "2024-06-01 10:00:00"},
    ]
    for kind in ("csv", "jsonl"):
        write(tmp_path / f"s.{kind}", rows)
        given = [{**e, "price": float(e["price"])} for e in events] if kind == "jsonl" else events
        write(tmp_path / f"e.{kind}", given)  # type: ignore[arg-type]
        found = earmark("match", f"s.{kind}", f"e.{kind}", *types, "--zone", "Europe/Oslo", "--json").rows()
        assert [(r["event"], r["subscription"]) for r in found] == [(0, 1), (0, 2), (0, 3), (1, 1), (1, 3)], kind


def test_file_names_in_any_script(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "объявления ☃.csv", ADS)
    write(tmp_path / "посетители 'x'.csv", VISITORS)
    assert earmark("match", "объявления ☃.csv", "посетители 'x'.csv", "-o", "hits 漢字.jsonl").code == 0
    assert read(tmp_path / "hits 漢字.jsonl") == matcher().match_many(VISITORS).to_pylist()
    assert "нет.csv" in earmark("match", "объявления ☃.csv", "нет.csv").sentence


def test_no_events_still_give_columns(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", ADS)
    (tmp_path / "e.csv").write_text("who,age\n")
    (tmp_path / "e.jsonl").write_text("\n")
    pq.write_table(pa.table({"age": pa.array([], pa.int64()), "who": pa.array([], pa.int32())}), tmp_path / "e.parquet")
    for kind in FORMATS:
        assert earmark("match", "ads.csv", f"e.{kind}", "-o", "o.parquet", "--event-id", "who").code == 0
        assert pq.read_table(tmp_path / "o.parquet").column_names == ["event", "subscription", "score"]
        assert earmark("top-k", "ads.csv", f"e.{kind}").out == '"event","subscription","score"\n'
        assert earmark("match", "ads.csv", f"e.{kind}", "--json").out == ""


def test_no_subscriptions(earmark: Earmark, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("id,condition\n")
    (tmp_path / "s.jsonl").write_text("")
    write(tmp_path / "e.csv", VISITORS)
    for name in ("s.csv", "s.jsonl"):
        assert earmark("match", name, "e.csv", "--json").rows() == []


def test_a_link_is_written_through_and_an_old_file_replaced(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", ADS)
    write(tmp_path / "e.csv", VISITORS)
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "real.csv").chmod(0o640)
    (tmp_path / "link.csv").symlink_to("real.csv")
    assert earmark("match", "ads.csv", "e.csv", "-o", "link.csv").code == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert read(tmp_path / "real.csv") == matcher().match_many(VISITORS).to_pylist()
    assert (tmp_path / "real.csv").stat().st_mode & 0o777 == 0o640


def test_a_file_without_the_attributes_is_noted(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", ADS)
    for kind in ("csv", "parquet"):
        write(tmp_path / f"e.{kind}", [{"Age": 40}, {"Age": 41}])
        found = earmark("match", "ads.csv", f"e.{kind}", "--json")
        assert [row["subscription"] for row in found.rows()] == ["ü", "ü"]  # age IS NULL
        assert found.err == f"earmark: note: 'e.{kind}' has none of the attributes (age, city), so all are NULL\n"


# --- explain, generate, demo ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*FORMATS, "earmark"])
def test_explain(earmark: Earmark, tmp_path: Path, kind: str) -> None:
    m = matcher()
    m.save(tmp_path / "ads.earmark") if kind == "earmark" else write(tmp_path / f"ads.{kind}", ADS)
    yes, no = {"age": 40, "city": "Oslo"}, {"age": 20}
    for event in (yes, no):
        found = earmark("explain", f"ads.{kind}", "a", json.dumps(event))
        assert (found.code, found.out, found.err) == (0 if event is yes else 1, f"{m.explain('a', event)}\n", "")
    told = json.loads(earmark("explain", f"ads.{kind}", "b", json.dumps(yes), "--json").out)
    assert told["matched"] is True and told["score"] == m.explain("b", yes).score
    assert [c["asked"] for c in told["clauses"][0]["constraints"]] == ["age < 50", "city = 'Oslo'"]
    endless = earmark("explain", f"ads.{kind}", "a", '{"age": {"lo": 31, "hi": 1e999}}', "--json")
    assert json.loads(endless.out, parse_constant=pytest.fail)["clauses"][0]["constraints"][0]["got"] == [31, "inf"]
    extended = earmark("explain", f"ads.{kind}", "a", '{"age": {"lo": 10, "hi": 31}}')
    assert extended.code == 0 and "age in [10, 31]" in extended.out


def test_explain_finds_ids_that_are_numbers(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "s.csv", [{"id": -7, "condition": "a = 1"}])
    assert earmark("explain", "s.csv", "--", "-7", '{"a": 1}').code == 0
    assert "no subscription '8'" in earmark("explain", "s.csv", "8", '{"a": 1}').sentence


@cache
def w2_of_two_thousand() -> Workload:
    return WORKLOADS["w2"](subscriptions=2000)


@pytest.mark.parametrize("kind", FORMATS)
def test_generate_and_match(earmark: Earmark, tmp_path: Path, kind: str) -> None:
    made = earmark("generate", "w2", "data", "--subscriptions", 2000, "--events", 50, "--format", kind)
    assert made.out == f"data/subscriptions.{kind}\ndata/events.{kind}\n"
    data = w2_of_two_thousand()
    inside = (data.sub_lo[None] <= data.event_value[:50, None]) & (data.event_value[:50, None] <= data.sub_hi[None])
    wanted = [tuple(pair) for pair in np.argwhere(inside.all(axis=2)).tolist()]
    found = earmark("match", f"data/subscriptions.{kind}", f"data/events.{kind}", "--json").rows()
    assert [(r["event"], r["subscription"]) for r in found] == wanted != []


def test_generate_is_seeded(earmark: Earmark, tmp_path: Path) -> None:
    for folder, seed in (("a", 5), ("b", 5), ("c", 6)):
        options = ("--subscriptions", 20, "--events", 3, "--format", "csv", "--seed", seed)
        assert earmark("generate", "w2", folder, *options).code == 0
    texts = [(tmp_path / folder / "subscriptions.csv").read_text() for folder in "abc"]
    assert texts[0] == texts[1] != texts[2]
    assert sorted(WORKLOADS) == NAMES


DEMO = ("demo", "--campaigns", 8_000, "--visitors", 100)


def test_demo(earmark: Earmark) -> None:
    first, second = (earmark(*DEMO, "--seed", 3) for _ in range(2))
    assert first.code == 0
    for part in (
        "8,000 ads, 100 visitors: which ads does each visitor match?",
        "Without earmark, for 20 visitors",
        "a loop in Python",
        "SQLite, indexed by interest and city",
        "loaded in ",
        "match(visitor) ",
        " x SQLite's speed, ",
        "match_many(visitors) ",
        "top_k(visitor, 5) ",
        "top_k_many(visitors, 5) ",
        "matches per visitor, the same ads as without earmark",
        "Meanwhile ads change: 500 added, 500 with a new bid, 500 removed, a visitor after each",
        "update(…) ",
        "The five best ads for this visitor",
        "  5. ad-",
        "Why ",
        "✓",
        "A near miss",
        "✗",
        "What to try next",
        "earmark match data/subscriptions.parquet",
    ):
        assert part in first.out, part
    assert max(map(len, first.out.splitlines())) <= 104, "it fits into a terminal"
    steady = [
        [line for line in run.out.splitlines() if " s " not in line and " µs" not in line] for run in (first, second)
    ]
    assert steady[0] == steady[1] != []


def test_demo_for_machines(earmark: Earmark) -> None:
    told = earmark(*DEMO, "--json")
    (figures,) = told.rows()
    timings = ["loop", "sqlite", "match", "match_many", "top_k", "top_k_many"]
    timings += [f"{name}_meanwhile" for name in ("add", "update", "remove", "match")]
    facts = ["campaigns", "visitors", "load_seconds", "megabytes", "matches", "seconds"]
    assert sorted(figures) == sorted([*facts, *timings])
    assert (figures["campaigns"], figures["visitors"], figures["matches"] > 20) == (8_000, 100, True)
    assert all(figures[name] > 0 for name in timings)
    assert "What to try next" in told.err


def test_demo_scores_add_up(earmark: Earmark) -> None:
    lines = earmark(*DEMO).out.splitlines()
    why = lines.index(next(line for line in lines if line.startswith("Why ")))
    total = lines[why + 1].split("score ")[1]
    bid, static = lines[why + 2].split(maxsplit=1)
    assert static == "static score"
    parts = [float(line.split()[1]) for line in lines[why + 3 :] if line.startswith("  + ")]
    assert sum(parts) + float(bid) == pytest.approx(float(total)) and parts


def test_a_demo_without_a_match(earmark: Earmark) -> None:
    told = earmark("demo", "--campaigns", 1, "--visitors", 1)
    assert told.code == 0
    assert "0.0 matches per visitor" in told.out


def test_the_rehearsal_of_a_demo_starts_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    from earmark.cli import demo as module
    from earmark.index.auto import helper

    monkeypatch.setattr(module, "REHEARSED", 300)
    monkeypatch.setattr(module, "_kernels_compiling", None)
    monkeypatch.setattr(helper.subprocess, "Popen", None)
    module.rehearse()


# --- help ----------------------------------------------------------------------------------------------------


def test_help_of_everything(earmark: Earmark) -> None:
    alone = earmark()
    assert alone.code == 0 and alone.out == earmark("--help").out == earmark("-h").out
    for name, command in main.commands.items():
        assert f"  {name} " in alone.out
        told = earmark(name, "--help")
        assert told.code == 0 and "Example" in told.out, name
        assert command.get_short_help_str(100) in alone.out, "the list of commands cuts nothing"
        assert max(map(len, told.out.splitlines())) <= 100
    assert earmark("--version").out == f"earmark {__version__}\n"
