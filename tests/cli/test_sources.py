"""Inputs that are not plain files with a telling name: standard input, compressed files, other delimiters."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest

from .conftest import Earmark
from .test_commands import ADS, FORMATS, VISITORS, matcher, write


def compress(path: Path, suffix: str) -> Path:
    """A compressed copy, in two parts, as logs that are appended to have."""
    text = path.read_bytes()
    parts = (text[:40], text[40:])
    made = path.with_name(path.name + suffix)
    if suffix == ".gz":
        made.write_bytes(b"".join(gzip.compress(part) for part in parts))
    else:
        made.write_bytes(b"".join(pa.compress(part, codec="zstd", asbytes=True) for part in parts))
    return made


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_compressed_files(earmark: Earmark, tmp_path: Path, kind: str, suffix: str) -> None:
    ads = compress(write(tmp_path / f"ads.{kind}", ADS), suffix)
    visitors = compress(write(tmp_path / f"visitors.{kind}", VISITORS), suffix)
    assert earmark("match", ads, visitors, "--json").rows() == matcher().match_many(VISITORS).to_pylist()


@pytest.mark.parametrize("kind", FORMATS)
def test_standard_input(earmark: Earmark, tmp_path: Path, kind: str) -> None:
    ads, visitors = write(tmp_path / f"ads.{kind}", ADS), write(tmp_path / f"visitors.{kind}", VISITORS)
    wanted = matcher().match_many(VISITORS).to_pylist()
    assert earmark("match", ads, "-", "--format", kind, "--json", given=visitors.read_bytes()).rows() == wanted
    assert earmark("match", "-", visitors, "--format", kind, "--json", given=ads.read_bytes()).rows() == wanted
    with visitors.open("rb") as file:
        assert earmark("match", ads, "-", "--format", kind, "--json", given=file).rows() == wanted


def test_standard_input_of_many_blocks(earmark: Earmark, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("id,condition\n1,n = 399999\n2,n = 0\n")
    csv = "pad,n\n" + "".join(f'"a\nb",{i}\n' for i in range(400_000))
    rows = earmark("match", "s.csv", "-", "--format", "csv", "--json", given=csv.encode()).rows()
    assert [(row["event"], row["subscription"]) for row in rows] == [(0, 2), (399_999, 1)]
    wrong = csv.replace(",399998\n", ",many\n").encode()
    told = earmark("match", "s.csv", "-", "--format", "csv", "-o", "o.csv", given=wrong).sentence
    assert told == "standard input, line 799998: expected a number for 'n', got 'many'"
    packed = gzip.compress(wrong)
    told = earmark("match", "s.csv", "-", "--format", "csv.gz", "-o", "o.csv", given=packed).sentence
    assert told == "standard input, line 799998: expected a number for 'n', got 'many'"
    assert not (tmp_path / "o.csv").exists()


def test_other_commands_read_standard_input(earmark: Earmark, tmp_path: Path) -> None:
    ads = write(tmp_path / "ads.csv", ADS).read_bytes()
    visitors = write(tmp_path / "e.jsonl", VISITORS).read_bytes()
    assert earmark("explain", "-", "a", '{"age": 40}', "--format", "csv", given=ads).code == 0
    assert earmark("audit", "-", "--format", "csv", given=ads).code == 0
    rows = earmark("backtest", "--condition", "age > 30", "-", "--format", "jsonl", "--json", given=visitors).rows()
    assert rows[0]["matches"] == 2
    rows = earmark("merge", "ads.csv", "--sample", "-", "--format", "jsonl", "--json", given=visitors).rows()
    assert {row["id"] for row in rows} <= {"a", "b", "ü"}


@pytest.mark.parametrize(("delimiter", "option"), [(";", ";"), ("\t", "\\t"), ("|", "|")])
def test_a_delimiter(earmark: Earmark, tmp_path: Path, delimiter: str, option: str) -> None:
    rows = [["id", "condition"], ["1", "\"t = 'a" + delimiter + "b'\""], ["2", "n = 2"]]
    (tmp_path / "s.csv").write_text("".join(delimiter.join(row) + "\n" for row in rows))
    (tmp_path / "e.csv").write_text(f'n{delimiter}t\n2{delimiter}"a{delimiter}b"\n')
    found = earmark("match", "s.csv", "e.csv", "--delimiter", option, "--json").rows()
    assert [row["subscription"] for row in found] == [1, 2]


def test_tabs(earmark: Earmark, tmp_path: Path) -> None:
    (tmp_path / "s.tsv").write_text("id\tcondition\n1\tn IN (1, 2)\n")
    (tmp_path / "e.csv").write_text("x;n\n1,5;2\n")
    options = ("--delimiter", ";", "-o", "o.tsv")  # a .tsv file has tabs, whatever separates the fields of CSV
    assert earmark("match", "s.tsv", "e.csv", *options).code == 0
    assert (tmp_path / "o.tsv").read_text() == '"event"\t"subscription"\t"score"\n0\t1\t1\n'


WRONG = [
    (["-", "-", "--format", "csv"], "only one input can be '-': standard input is read once"),
    (["ads.csv", "-"], "standard input has no name that says its format: add --format, with csv, tsv, jsonl"),
    (["ads.csv", "-", "--format", "xml"], "--format: expected csv, tsv, jsonl or parquet, or one of them with"),
    (["ads.csv", "e.csv", "--format", "csv"], "--format is for standard input and for file names that do not say"),
    (["ads.csv", "-", "--format", "parquet"], "standard input cannot be read as Parquet: it begins with b'age"),
    (["ads.csv", "-", "--format", "csv.gz"], "standard input cannot be read as gzip-compressed CSV: "),
    (["ads.csv", "-", "--format", "jsonl"], "standard input, line 1: expected one JSON object per line, got 'age'"),
    (["ads.csv", "e.csv", "--delimiter", ";;"], "expected one ASCII character such as ';' or '\\t', got ';;'"),
    (["ads.csv", "e.csv", "--delimiter", '"'], "expected one ASCII character"),
    (["s.jsonl", "e.jsonl", "--delimiter", ";"], "--delimiter is for CSV, and no input is CSV"),
    (["ads.csv", "e.csv", "--index", "b_tree"], "there is no index called 'b_tree'; there are auto, be_star_tree, "),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "told"), WRONG)
def test_wrong_inputs(earmark: Earmark, tmp_path: Path, arguments: list[str], told: str) -> None:
    write(tmp_path / "ads.csv", ADS)
    write(tmp_path / "e.csv", VISITORS)
    for name in ("s.jsonl", "e.jsonl"):
        (tmp_path / name).write_text("{}\n")
    assert told in earmark("match", *arguments, given=b"age\nold\n").sentence


def test_standard_input_of_the_wrong_kind(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", ADS)
    told = earmark("match", "ads.csv", "-", "--format", "csv", given=gzip.compress(b"age\n1\n")).sentence
    assert told == "standard input cannot be read as CSV: it is gzip-compressed; say --format csv.gz"


def test_standard_input_is_not_written_to(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", ADS)
    events = write(tmp_path / "e.csv", VISITORS)
    with events.open("rb") as file:
        told = earmark("match", "ads.csv", "-", "--format", "csv", "-o", "e.csv", given=file).sentence
    assert told == "'e.csv' cannot be written: it is read from"


def test_a_file_whose_name_does_not_say_its_format(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", ADS)
    write(tmp_path / "e.jsonl", VISITORS).rename(tmp_path / "events.log")
    rows = earmark("match", "ads.csv", "events.log", "--format", "jsonl", "--json").rows()
    assert rows == matcher().match_many(VISITORS).to_pylist()


# --- saved folders and indexes -------------------------------------------------------------------------------


def test_save(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", ADS)
    write(tmp_path / "e.jsonl", VISITORS)
    saved = earmark("save", "ads.csv", "ads.earmark", "--index", "blocks")
    assert (saved.code, saved.out) == (0, "saved 3 subscriptions to 'ads.earmark'\n")
    assert saved.err.startswith("loaded in ")
    wanted = matcher().match_many(VISITORS).to_pylist()
    for options in ([], ["--index", "scan"], ["--index", "be_star_tree"]):
        assert earmark("match", "ads.earmark", "e.jsonl", "--json", *options).rows() == wanted
    again = earmark("save", "ads.csv", "ads.earmark", "--json").rows()[0]
    assert (again["subscriptions"], again["index"], again["output"]) == (3, "auto", "ads.earmark")
    for command in (
        ["top-k", "ads.earmark", "e.jsonl"],
        ["explain", "ads.earmark", "a", '{"age": 40}'],
        ["audit", "ads.earmark"],
        ["backtest", "ads.earmark", "e.jsonl"],
        ["merge", "ads.earmark", "--budget", "0"],
        ["save", "ads.earmark", "copy.earmark", "--index", "vcr"],
    ):
        assert earmark(*command).code == 0, command


def test_save_overwrites_nothing_else(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", ADS)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    (tmp_path / "file").write_text("old")
    for target in ("mine", "file", "ads.csv"):
        assert "exists and is not an earmark book; it is not overwritten" in earmark("save", "ads.csv", target).sentence
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"
    earmark("save", "ads.csv", "a.earmark")
    assert earmark("save", "a.earmark", "a.earmark").sentence == "'a.earmark' cannot be written: it is read from"


@pytest.mark.parametrize("command", ["match", "top-k", "backtest"])
def test_every_index_gives_the_same(earmark: Earmark, tmp_path: Path, command: str) -> None:
    write(tmp_path / "ads.csv", ADS)
    write(tmp_path / "e.jsonl", VISITORS)
    wanted = earmark(command, "ads.csv", "e.jsonl", "--json").rows()
    for index in ("scan", "blocks"):
        assert earmark(command, "ads.csv", "e.jsonl", "--json", "--index", index).rows() == wanted


# --- one event -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"age": "old"}, "expected a number for 'age'"),
        ({"a": {"b": 1}, "a.b": 2, "age": 1}, "attribute 'a.b' is given twice"),
        ({"age": {"lo": 3, "hi": 1}}, "the interval of 'age' is empty"),
    ],
)
def test_a_single_event_has_no_number(earmark: Earmark, tmp_path: Path, event: dict[str, object], told: str) -> None:
    write(tmp_path / "s.csv", [{"id": "a", "condition": "age > 30 AND a.b = 1"}])
    sentence = earmark("explain", "s.csv", "a", json.dumps(event)).sentence
    assert sentence.startswith(told)
    assert "event 0" not in sentence and "row 0" not in sentence
