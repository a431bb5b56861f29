"""Events that cannot be read: an error, NULL, or left out; and the file that says which and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from .conftest import Earmark
from .test_commands import write

RULES = [
    {"id": "old", "condition": "age > 60"},
    {"id": "new", "condition": "since >= DATE '2024-01-01'"},
    {"id": "none", "condition": "age IS NULL"},
]
EVENTS: list[dict[str, Any]] = [
    {"who": "a", "age": 61, "since": "2024-02-29"},
    {"who": "b", "age": "old", "since": "2024-02-29"},
    {"who": "c", "age": 70, "since": "soon"},
    {"who": "d", "age": "x", "since": "y"},
    {"who": "e", "age": None, "since": "2023-01-01"},
]
READABLE = [(0, "old"), (0, "new"), (4, "none")]
AS_NULL = [(0, "old"), (0, "new"), (1, "new"), (1, "none"), (2, "old"), (3, "none"), (4, "none")]
UNREAD = [(1, "age"), (2, "since"), (3, "age"), (3, "since")]
LINES = {"jsonl": [2, 3, 4, 4], "csv": [3, 4, 5, 5]}


@pytest.fixture(params=["csv", "jsonl"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    write(tmp_path / "s.csv", RULES)
    if request.param == "csv":
        rows = [",".join(str(value if value is not None else "") for value in row.values()) for row in EVENTS]
        (tmp_path / "e.csv").write_text("\n".join(["who,age,since", *rows]) + "\n")
    else:
        (tmp_path / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in EVENTS))
    return str(request.param)


def pairs(rows: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    return [(row["event"], row["subscription"]) for row in rows]


def rejected(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    delimiter = "\t" if path.suffix == ".tsv" else ","
    options = csv.ConvertOptions(strings_can_be_null=True, column_types={"line": pa.int64(), "attribute": pa.string()})
    return csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=delimiter), convert_options=options).to_pylist()


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv", "parquet"])
def test_left_out(earmark: Earmark, tmp_path: Path, kind: str, suffix: str) -> None:
    run = earmark("match", "s.csv", f"e.{kind}", "--reject", f"bad.{suffix}")
    assert run.err.splitlines()[-1] == f"3 of 5 events rejected, see bad.{suffix}"
    assert pairs(earmark("match", "s.csv", f"e.{kind}", "--on-error", "reject", "--json").rows()) == READABLE
    rows = rejected(tmp_path / f"bad.{suffix}")
    assert list(rows[0]) == ["event", "line", "attribute", "reason"]
    assert sorted((row["event"], row["attribute"]) for row in rows) == UNREAD
    assert [row["line"] for row in rows] == LINES[kind]
    assert all("got" in row["reason"] or "gives" in row["reason"] or "write it" in row["reason"] for row in rows)


def test_null(earmark: Earmark, tmp_path: Path, kind: str) -> None:
    options = ("--on-error", "null", "--reject", "bad.jsonl", "--event-id", "who", "-o", "o.jsonl", "--json")
    (summary,) = earmark("match", "s.csv", f"e.{kind}", *options).rows()
    assert (summary["events"], summary["null_values"], summary["rejected_events"]) == (5, 4, 0)
    assert (summary["results"], summary["reject"]) == (len(AS_NULL), "bad.jsonl")
    assert pairs(rejected(tmp_path / "o.jsonl")) == [("abcde"[event], id) for event, id in AS_NULL]
    unread = rejected(tmp_path / "bad.jsonl")
    assert sorted((row["event"], row["attribute"]) for row in unread) == [
        ("abcde"[event], name) for event, name in UNREAD
    ]


def test_rows_of_parquet(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "s.csv", RULES)
    since = pa.array([event["since"] for event in EVENTS])
    pq.write_table(pa.table({"since": since, "age": [61, 62, 63, 64, 65]}), tmp_path / "e.parquet")
    assert earmark("match", "s.csv", "e.parquet", "-o", "o.csv").sentence.startswith("'e.parquet', row 2: ")
    rows = earmark("match", "s.csv", "e.parquet", "--reject", "bad.jsonl", "--json").rows()
    assert pairs(rows) == [(0, "old"), (0, "new"), (1, "old"), (1, "new"), (4, "old")]
    unread = rejected(tmp_path / "bad.jsonl")
    assert [(row["event"], row["line"], row["attribute"]) for row in unread] == [(2, None, "since"), (3, None, "since")]


def test_top_k_and_backtest(earmark: Earmark, tmp_path: Path, kind: str) -> None:
    rows = earmark("top-k", "s.csv", f"e.{kind}", "-k", 1, "--reject", "bad.jsonl", "--json").rows()
    assert pairs(rows) == [(0, "old"), (4, "none")]
    assert len(rejected(tmp_path / "bad.jsonl")) == 4
    rows = earmark("backtest", "s.csv", f"e.{kind}", "--reject", "bad.csv", "--json").rows()
    assert [(row["matches"], row["share"], row["sample"]) for row in rows] == [
        (1, 0.5, [0]),
        (1, 0.5, [0]),
        (1, 0.5, [4]),
    ]
    assert len(rejected(tmp_path / "bad.csv")) == 4
    rows = earmark("backtest", "s.csv", f"e.{kind}", "--on-error", "null", "--json").rows()
    assert [row["matches"] for row in rows] == [2, 2, 3]


def test_without_the_options_it_is_an_error(earmark: Earmark, tmp_path: Path, kind: str) -> None:
    for options in ((), ("--on-error", "raise")):
        sentence = earmark("match", "s.csv", f"e.{kind}", *options, "-o", "o.csv").sentence
        assert sentence.startswith(f"'e.{kind}', line {LINES[kind][0]}: ")
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize("mode", ["null", "reject"])
def test_rows_that_are_no_events(earmark: Earmark, tmp_path: Path, mode: str) -> None:
    """They count, so that events keep their numbers, and match nothing, not even IS NULL."""
    write(tmp_path / "s.csv", RULES)
    (tmp_path / "e.jsonl").write_text('{"age": 1}\n{"age"\n\n[1]\n{"age": 61}\n{}\n')
    options = ("--on-error", mode, "--reject", "bad.jsonl", "--json")
    assert pairs(earmark("match", "s.csv", "e.jsonl", *options).rows()) == [(3, "old"), (4, "none")]
    unread = [(row["event"], row["line"], row["attribute"]) for row in rejected(tmp_path / "bad.jsonl")]
    assert unread == [(1, 2, None), (2, 4, None)]
    (tmp_path / "e.csv").write_text('who,age\n"a\nb",1\nc\nd,61\ne,5,6\nf,\n')
    assert pairs(earmark("match", "s.csv", "e.csv", *options).rows()) == [(2, "old"), (4, "none")]
    rows = rejected(tmp_path / "bad.jsonl")
    assert [(row["event"], row["line"], row["attribute"]) for row in rows] == [(1, 4, None), (3, 6, None)]
    assert rows[0]["reason"] == "expected 2 columns, got 1: c"


def test_events_without_a_name(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "s.csv", RULES)
    (tmp_path / "e.jsonl").write_text('{"age": 61}\n{"who": 7, "age": 61}\n{"who": "x", "age": 61}\n{"who": 8}\n')
    options = ("--event-id", "who", "--reject", "bad.parquet", "--json")
    assert pairs(earmark("match", "s.csv", "e.jsonl", *options).rows()) == [(7, "old"), (8, "none")]
    rows = rejected(tmp_path / "bad.parquet")
    assert [(row["event"], row["line"]) for row in rows] == [(None, 1), (None, 3)]
    assert rows[1]["reason"] == "expected an integer for 'who', which names events, got 'x'"


def test_far_into_a_file(earmark: Earmark, tmp_path: Path) -> None:
    """Past the first chunk, block and group."""
    write(tmp_path / "s.csv", [{"id": 1, "condition": "n = 7"}])
    bad = [5, 16_384, 40_001, 449_999]
    values: list[object] = ["x" if i in bad else 7 for i in range(450_000)]
    (tmp_path / "e.csv").write_text("t,n\n" + "".join(f'"a\nb",{value}\n' for value in values))
    run = earmark("match", "s.csv", "e.csv", "--reject", "bad.jsonl", "-o", "o.parquet")
    assert run.err.splitlines()[-1] == "4 of 450,000 events rejected, see bad.jsonl"
    rows = rejected(tmp_path / "bad.jsonl")
    assert [(row["event"], row["line"]) for row in rows] == [(i, 2 * i + 2) for i in bad]
    assert set(range(450_000)) - set(pq.read_table(tmp_path / "o.parquet")["event"].to_pylist()) == set(bad)


def test_nothing_to_reject(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "s.csv", RULES)
    write(tmp_path / "e.jsonl", [{"age": 61}])
    run = earmark("match", "s.csv", "e.jsonl", "--reject", "bad.csv")
    assert run.err.splitlines()[-1] == "0 of 1 event rejected, see bad.csv"
    assert (tmp_path / "bad.csv").read_text() == '"event","line","attribute","reason"\n'


def test_a_failed_run_leaves_the_old_file(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "s.csv", RULES)
    (tmp_path / "e.csv").write_text('age\nx\n"never closed\n')
    (tmp_path / "bad.jsonl").write_text("old")
    assert "never closed" in earmark("match", "s.csv", "e.csv", "--reject", "bad.jsonl", "-o", "o.csv").sentence
    assert (tmp_path / "bad.jsonl").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl", "e.csv", "s.csv"]


WRONG = [
    (["--reject", "bad.txt"], "expected a .parquet, .csv, .tsv or .jsonl file, got '.txt'"),
    (["--reject", "e.csv"], "'e.csv' cannot be written: it is read from"),
    (["--reject", "o.csv", "-o", "./o.csv"], "'o.csv' cannot be written: the results go there"),
    (["--reject", "bad.csv", "--on-error", "raise"], "--reject needs --on-error reject or --on-error null"),
    (["--on-error", "skip"], "'skip' is not one of 'raise', 'null', 'reject'"),
    (["--on-error", "null", "--engine", "spark"], "--engine spark does not have them yet"),
]


@pytest.mark.parametrize(("options", "told"), WRONG)
def test_wrong_options(earmark: Earmark, tmp_path: Path, options: list[str], told: str) -> None:
    write(tmp_path / "s.csv", RULES)
    (tmp_path / "e.csv").write_text("age\n61\n")
    assert told in earmark("match", "s.csv", "e.csv", *options).sentence
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.csv", "s.csv"]


# --- dates and intervals -------------------------------------------------------------------------------------

TIMES = [
    {"id": "day", "condition": "day >= DATE '2024-02-01'"},
    {"id": "at", "condition": "at >= TIMESTAMP '2024-02-01 12:00:00'"},
    {"id": "declared", "condition": "due < '2024-02-01'"},
]
DECLARED = ("--attribute", "due=date")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_dates_as_text(earmark: Earmark, tmp_path: Path, suffix: str) -> None:
    """Learned from a condition or declared; with a zone, without, and both in one column."""
    write(tmp_path / "s.csv", TIMES)
    events = [
        {"day": "2024-02-29", "at": "2024-02-01T12:00:00Z", "due": "2024-01-31"},
        {"day": "2024-1-9", "at": "2024-02-01 12:00:00", "due": "2024-02-01"},
        {"day": None, "at": "2024-02-01 12:30:00+01:00", "due": None},
        {"day": "2024-02-01", "at": "2024-02-01", "due": None},
    ]
    write(tmp_path / f"e.{suffix}", events)
    rows = earmark("match", "s.csv", f"e.{suffix}", *DECLARED, "--json").rows()
    assert pairs(rows) == [(0, "day"), (0, "at"), (0, "declared"), (1, "at"), (3, "day")]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("e.csv", "day\nsoon\n", "'e.csv', line 2: expected a date such as 2024-02-29 for 'day', got 'soon'"),
        (
            "e.csv",
            "at\n12:30\n",
            "'e.csv', line 2: expected a timestamp such as 2024-02-29 12:30:00 or 2024-02-29T12:30",
        ),
        ("e.jsonl", '{"day": "soon"}\n', "line 1: expected a date such as '2024-02-29' for 'day', got 'soon'"),
        (
            "e.jsonl",
            '{"due": 20240229}\n',
            "expected a date for 'due' (declared), got 20240229; write it as '2024-02-29'",
        ),
        ("e.jsonl", '{"at": 1709209800}\n', "got 1709209800; write it as '2024-02-29 12:30:00' or"),
    ],
)
def test_a_wrong_date_says_what_would_be_right(
    earmark: Earmark, tmp_path: Path, name: str, text: str, told: str
) -> None:
    write(tmp_path / "s.csv", TIMES)
    (tmp_path / name).write_text(text)
    assert told in earmark("match", "s.csv", name, *DECLARED).sentence


def test_dates_for_an_attribute_of_strings(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "s.csv", [{"id": 1, "condition": "day > '2024-01-01'"}])
    pq.write_table(pa.table({"day": pa.array([19_800], pa.date32())}), tmp_path / "e.parquet")
    assert earmark("match", "s.csv", "e.parquet").sentence.endswith("; declare the attribute as date")
    assert earmark("match", "s.csv", "e.parquet", "--attribute", "day=date", "--json").rows()[0]["event"] == 0


def test_intervals_in_json(earmark: Earmark, tmp_path: Path) -> None:
    write(
        tmp_path / "s.csv",
        [{"id": 1, "condition": "a.n BETWEEN 5 AND 6"}, {"id": 2, "condition": "day < DATE '2024-01-01'"}],
    )
    rows = [
        '{"a": {"n": {"lo": 1, "hi": 9}}}',
        '{"a.n": {"lo": 7}}',
        '{"a": {"n": {"hi": 5.5}}}',
        '{"day": {"lo": "2023-05-01", "hi": null}}',
    ]
    (tmp_path / "e.jsonl").write_text("\n".join(rows))
    assert pairs(earmark("match", "s.csv", "e.jsonl", "--json").rows()) == [(0, 1), (2, 1), (3, 2)]
    assert earmark("explain", "s.csv", 1, rows[0]).code == 0
    assert earmark("explain", "s.csv", 1, rows[1]).code == 1
