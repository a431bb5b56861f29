"""Whatever is wrong is told in one sentence, with exit code 2, and nothing is written."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from earmark import Matcher

from .conftest import NOTICE, Earmark
from .test_commands import ADS, FORMATS, VISITORS, write


def packed(text: bytes) -> bytes:
    """gzip-compressed, the same in every process: tests are named after it."""
    return gzip.compress(text, mtime=0)


USAGE = [
    (["frob"], "No such command 'frob'"),
    (["match"], "Missing argument 'SUBSCRIPTIONS' (see: earmark match --help)"),
    (["match", "ads.csv"], "Missing argument 'EVENTS'"),
    (["match", "ads.csv", "e.csv", "more"], "unexpected extra argument"),
    (["match", "ads.csv", "e.csv", "--frob"], "No such option '--frob'"),
    (["match", "ads.csv", "e.csv", "-k", "3"], "No such option '-k'"),
    (["match", "ads.csv", "e.csv", "--scope", "tenant"], "'tenant' is not of the form TAG=VALUE"),
    (["match", "ads.csv", "e.csv", "--attribute", "=integer"], "'=integer' is not of the form NAME=TYPE"),
    (["match", "ads.csv", "e.csv", "--attribute=a=date", "--attribute=a=float"], "'a' is given twice"),
    (["match", "ads.csv", "e.csv", "--attribute", "age=whole"], "'whole' is not a type"),
    (["match", "ads.csv", "e.csv", "--zone", "Mars/Base"], "'Mars/Base'"),
    (["top-k", "ads.csv", "e.csv", "-k", "0"], "0 is not in the range x>=1"),
    (["match", "ads.csv", "e.csv", "--threads", "0"], "0 is not in the range x>=1"),
    (["top-k", "ads.csv", "e.csv", "-k", "many"], "'many' is not a valid integer"),
    (["top-k", "ads.csv", "e.csv", "--mode", "best"], "'best' is not one of 'exact', 'relaxed'"),
    (["top-k", "ads.csv", "e.csv", "--weight", "age=much"], "the weight of 'age' must be a number, got 'much'"),
    (
        ["top-k", "ads.csv", "e.csv", "--weight", "age=-1"],
        "the weight of 'age' must be finite and not negative, got -1",
    ),
    (
        ["top-k", "ads.csv", "e.csv", "--weight", "age=nan"],
        "the weight of 'age' must be finite and not negative, got nan",
    ),
    (["top-k", "ads.csv", "e.csv", "--weight", "size=1"], "--weight names 'size', which no subscription uses"),
    (["explain", "ads.csv", "a"], "Missing argument 'EVENT'"),
    (["explain", "ads.csv", "a", "{age: 1}"], "EVENT: expected a JSON object such as '{\"age\": 27}', got '{age: 1}'"),
    (["explain", "ads.csv", "a", "[1]"], "EVENT: expected a JSON object"),
    (["explain", "ads.csv", "nobody", "{}"], "there is no subscription 'nobody'"),
    (["explain", "ads.csv", "a", '{"age": "old"}'], "expected a number for 'age'"),
    (["explain", "ads.csv", "a", '{"age": {"lo": 3, "hi": 1}}'], "the interval of 'age' is empty"),
    (["generate", "w9", "data"], "'w9' is not one of 'w1', 'w1u', 'w1z', 'w2'"),
    (["generate"], "Missing argument 'WORKLOAD'"),
    (["generate", "w2", "data", "--subscriptions", "0"], "0 is not in the range"),
    (["generate", "w2", "data", "--seed", "-1"], "-1 is not in the range"),
    (["generate", "w2", "ads.csv"], "the folder 'ads.csv' cannot be created: File exists"),
    (["demo", "--campaigns", "0"], "0 is not in the range"),
]


@pytest.mark.parametrize(("arguments", "told"), USAGE, ids=lambda value: " ".join(value)[:60])
def test_usage(earmark: Earmark, tmp_path: Path, arguments: list[str], told: str) -> None:
    write(tmp_path / "ads.csv", ADS)
    write(tmp_path / "e.csv", VISITORS)
    failed = earmark(*arguments)
    assert failed.code == 2
    assert told in failed.sentence
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ads.csv", "e.csv"]


EVENT_FILES = [
    ("none.csv", None, "there is no file 'none.csv'"),
    ("e.xlsx", b"", "got '.xlsx'; save the sheet as CSV"),
    ("events", b"", "'events' does not say its format: add --format, with csv, tsv, jsonl or parquet"),
    ("e.csv", b"", "'e.csv' is empty; a CSV file begins with a line of column names"),
    ("e.csv", b"\n\n", "'e.csv' is empty"),
    ("e.csv", b"age,city\n1,x\n\n2\n", "'e.csv', line 4: expected 2 columns, got 1: 2"),
    ("e.csv", b"age,age\n1,2\n", "'e.csv' has two columns 'age'"),
    ("e.csv", b'city,age\n"a\nb",1\nc,old\n', "'e.csv', line 4: expected a number for 'age', got 'old'"),
    ("e.csv", b"age\n\xff\n", "'e.csv', line 2: expected UTF-8 text, got byte 0xff"),
    ("e.csv", b"\xffa\n", "'e.csv' cannot be read as CSV: it is not UTF-8 text (byte 0xff)"),
    ("e.csv", b"\xff\xfea\0", "'e.csv' cannot be read as CSV: it is UTF-16 text; save it as UTF-8"),
    ("e.csv", b"PAR1\x15\x04", "'e.csv' cannot be read as CSV: it is a Parquet file; its name should end in .parquet"),
    ("e.tsv", packed(b"age\n1\n"), "it is gzip-compressed; its name should end in .tsv.gz"),
    ("e.jsonl", b"\x28\xb5\x2f\xfd\0", "it is zstd-compressed; its name should end in .jsonl.zst"),
    ("e.csv", b"PK\x03\x04", "'e.csv' cannot be read as CSV: it is a zip archive or an Excel workbook"),
    (
        "e.csv.gz",
        packed(b"age\n" + b"1\n" * 900)[:-9],
        "cannot be read as gzip-compressed CSV: Truncated compre",
    ),
    (
        "e.jsonl.gz",
        packed(b'{"age": 1}\n' * 900)[:-20],
        "'e.jsonl.gz' cannot be read as gzip-compressed JSON lines",
    ),
    ("e.csv.gz", b"age\n1\n", "'e.csv.gz' cannot be read as gzip-compressed CSV: "),
    ("e.csv.zst", b"age\n1\n", "'e.csv.zst' cannot be read as zstd-compressed CSV: "),
    ("e.csv.gz", packed(b"age\n1\nold\n"), "'e.csv.gz', line 3: expected a number for 'age', got 'old'"),
    ("e.parquet.gz", b"", "'e.parquet.gz': Parquet has its own compression; decompress the file first"),
    ("e.gz", b"", "'e.gz' does not say its format: add --format"),
    ("e.csv", b"city\n" + b"x\n" * 600_000 + b"\xe9\n", "'e.csv', line 600002: expected UTF-8 text, got byte 0xe9"),
    ("e.csv", b'age,city\n1,x\n2,"y\n3,z\n4,w\n', "'e.csv', line 3: a quote opens here and is never closed"),
    ("e.csv", b'city,age\nx,1\n"y,2\nz,3\n', "'e.csv', line 3: a quote opens here and is never closed"),
    ("e.csv", b'age,city\n1,"x\ny"\n2,"say ""hi""\n', "'e.csv', line 4: a quote opens here and is never closed"),
    ("e.csv", b'"age,city\n1,x\n', "'e.csv', line 1: a quote opens here and is never closed"),
    ("e.csv", b'age,city\n1,"' + b"x\n" * 3_000_000, "'e.csv', line 2: a quote opens here and is never closed"),
    ("e.csv", b'age,city\n1,x\n2,"' + b"x" * (9 << 20) + b'"\n', "'e.csv', line 3: longer than 2 MB"),
    ("", None, "there is no file ''"),
    ("-", None, "standard input has no name that says its format: add --format, with csv, tsv, jsonl or parquet"),
    ("e.csv.gz", b"", "'e.csv.gz' is empty"),
    ("e.json", b'[{"age": 1}]', "'e.json', line 1: expected one JSON object per line, got a list; `jq"),
    ("e.json", b'{\n "age": 1\n}\n', "line 1: expected one JSON object per line, got '{', which is not JSON; `jq"),
    ("e.parquet", b"age\n1\n", "'e.parquet' cannot be read as Parquet: "),
    ("e.parquet", b"", "'e.parquet' cannot be read as Parquet: "),
    ("e.parquet", b"PAR1 this is not one PAR1", "'e.parquet' cannot be read as Parquet: "),
    (
        "e.jsonl",
        b'{"age": 1}\n\n{"age": }\n',
        "'e.jsonl', line 3: expected one JSON object per line, got '{\"age\": }', which is not JSON",
    ),
    ("e.jsonl", b'{"age": 1}\n[1]\n', "'e.jsonl', line 2: expected one JSON object per line, got a list"),
    ("e.jsonl", b"3\n", "'e.jsonl', line 1: expected one JSON object per line, got a number"),
    ("e.jsonl", b"null\n", "'e.jsonl', line 1: expected one JSON object per line, got null"),
    ("e.jsonl", b'{"age": 1}\n\n{"age": "old"}\n', "'e.jsonl', line 3: expected a number for 'age'"),
    ("e.jsonl", b'{"age": [1]}\n', "'e.jsonl', line 1: expected a number for 'age'"),
    ("e.jsonl", b'{"age": {"lo": 2, "hi": 1}}\n', "'e.jsonl', line 1: the interval of 'age' is empty"),
    ("e.jsonl", b"\xff\n", "'e.jsonl', line 1: expected one JSON object per line, got '\\\\xff'"),
    ("e.jsonl", b"[" * 100_000, "'e.jsonl', line 1: expected one JSON object"),
    ("e.jsonl", b'{"city": "\\ud800"}\n', "'e.jsonl', line 1: expected a string that UTF-8 can carry for 'city', got "),
]


@pytest.mark.parametrize(("name", "content", "told"), EVENT_FILES, ids=lambda value: str(value)[:60])
def test_events(earmark: Earmark, tmp_path: Path, name: str, content: bytes | None, told: str) -> None:
    write(tmp_path / "ads.csv", ADS)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    (tmp_path / "old.csv").write_text("old")
    failed = earmark("match", "ads.csv", name, "-o", "old.csv")
    assert failed.code == 2
    assert told in failed.sentence
    assert (tmp_path / "old.csv").read_text() == "old"
    assert not list(tmp_path.glob(".*"))


def test_event_ids(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", ADS)
    for kind in ("csv", "parquet"):
        write(tmp_path / f"e.{kind}", VISITORS)
        assert "has no column 'name' to name" in earmark("match", "ads.csv", f"e.{kind}", "--event-id=name").sentence
    (tmp_path / "e.jsonl").write_text('{"who": 1}\n\n{"who": "x"}\n')
    told = earmark("match", "ads.csv", "e.jsonl", "--event-id", "who").sentence
    assert told == "'e.jsonl', line 3: expected an integer for 'who', which names events, got 'x'"
    told = earmark("match", "ads.csv", "e.jsonl", "--event-id", "name").sentence
    assert told == "'e.jsonl', line 1: expected a string or an integer for 'name', which names events, got None"


WIDE = [
    (
        "e.csv",
        b"age\n1\n9223372036854775808\n",
        "'e.csv', line 3: expected a 64-bit integer for 'age', got 9223372036854775808",
    ),
    (
        "e.jsonl",
        b'{"age": 99999999999999999999}\n',
        "'e.jsonl', line 1: expected a 64-bit integer for 'age', got 99999999999999999999",
    ),
]


@pytest.mark.parametrize(("name", "content", "told"), WIDE)
def test_numbers_beyond_64_bits(earmark: Earmark, tmp_path: Path, name: str, content: bytes, told: str) -> None:
    """A learned number takes them; a declared integer does not."""
    write(tmp_path / "s.csv", [{"id": 1, "condition": "age > 1"}])
    (tmp_path / name).write_bytes(content)
    rows = earmark("match", "s.csv", name, "--json").rows()
    assert [row["event"] for row in rows] == [content.count(b"\n") - 1 - name.endswith("csv")]
    failed = earmark("match", "s.csv", name, "--attribute", "age=integer", "-o", "o.csv")
    assert told in failed.sentence
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_fraction_beside_a_large_bound(earmark: Earmark, tmp_path: Path, kind: str) -> None:
    """A learned number takes it; where an integer is declared, the place in the file is told."""
    bound = 2**53 + 1
    write(tmp_path / "s.csv", [{"id": 1, "condition": f"n > {bound}"}, {"id": 2, "condition": "n = 2.5"}])
    bad = 20_001
    write(tmp_path / f"e.{kind}", [{"n": float(i) if i != bad else 2.5} for i in range(bad + 100)])
    (row,) = earmark("match", "s.csv", f"e.{kind}", "--json").rows()
    assert (row["event"], row["subscription"]) == (bad, 2)
    write(tmp_path / "s.csv", [{"id": 1, "condition": f"n > {bound}"}])
    where = {"parquet": f"row {bad}", "csv": f"line {bad + 2}", "jsonl": f"line {bad + 1}"}[kind]
    assert earmark("match", "s.csv", f"e.{kind}", "--attribute", "n=integer", "-o", "o.csv").sentence == (
        f"'e.{kind}', {where}: expected an integer for 'n' (declared), got 2.5"
    )


def test_events_teach_no_type(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "s.csv", [{"id": 1, "condition": "n > 1"}])
    write(tmp_path / "e.jsonl", [{"n": value} for value in (3.0, 3.0, 3.0, 3.0, 3.0, 2.5, "x")])
    assert earmark("match", "s.csv", "e.jsonl", "-o", "o.csv").sentence == (
        "'e.jsonl', line 7: expected a number for 'n' (first used so by subscription 1: n > 1), got 'x'"
    )


def test_a_truncated_parquet_file(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", ADS)
    pq.write_table(pa.table({"age": list(range(100_000))}), tmp_path / "e.parquet", row_group_size=1_000)
    whole = (tmp_path / "e.parquet").read_bytes()
    (tmp_path / "e.parquet").write_bytes(whole[: len(whole) // 2])
    assert "'e.parquet' cannot be read as Parquet" in earmark("match", "ads.csv", "e.parquet").sentence
    damaged = bytearray(whole)
    damaged[5_000:90_000] = b"\0" * 85_000
    (tmp_path / "e.parquet").write_bytes(damaged)
    failed = earmark("match", "ads.csv", "e.parquet", "-o", "o.csv")
    assert "'e.parquet' cannot be read as Parquet" in failed.sentence
    assert not (tmp_path / "o.csv").exists()


def test_rows_are_numbered_as_in_the_file(earmark: Earmark, tmp_path: Path) -> None:
    """Past the first chunk and group, and where lines and rows differ."""
    write(tmp_path / "s.csv", [{"id": 1, "condition": "n = 7"}])
    bad = 40_001
    values: list[object] = [7] * 45_000
    pq.write_table(
        pa.table({"n": pa.array([*values[:bad], 2**63, *values[bad:]], pa.uint64())}), tmp_path / "e.parquet"
    )
    integers = ("--attribute", "n=integer", "-o", "o.csv")
    assert earmark("match", "s.csv", "e.parquet", *integers).sentence.startswith(f"'e.parquet', row {bad}: ")
    values[bad] = "x"
    (tmp_path / "e.jsonl").write_text("".join(json.dumps({"n": v}) + "\n\n" for v in values))
    assert earmark("match", "s.csv", "e.jsonl", "-o", "o.csv").sentence.startswith(f"'e.jsonl', line {2 * bad + 1}: ")
    (tmp_path / "e.csv").write_text("t,n\n" + "".join(f'"a\nb",{v}\n' for v in values))
    assert earmark("match", "s.csv", "e.csv", "-o", "o.csv").sentence.startswith(f"'e.csv', line {2 * bad + 2}: ")
    (tmp_path / "e.csv").write_text("t,n\n" + "".join("a,7\n" if v == 7 else "a\n" for v in values))
    assert earmark("match", "s.csv", "e.csv", "-o", "o.csv").sentence.startswith(f"'e.csv', line {bad + 2}: expected 2")
    assert not (tmp_path / "o.csv").exists()


SUBSCRIPTION_FILES = [
    ("none.parquet", None, "there is no file 'none.parquet'"),
    ("s.csv", "", "'s.csv' is empty"),
    (
        "s.csv",
        "ID,Condition\n1,a = 1\n",
        "'s.csv': expected the column names 'id' and 'condition', got 'ID' and 'Condition'",
    ),
    ("s.csv", "id, condition\n1,a = 1\n", "'s.csv': expected the column name 'condition', got ' condition'"),
    ("s.csv", "\ufeff\ufeffid,condition\n1,a = 1\n", "'s.csv': expected the column name 'id', got '\\ufeffid'"),
    ("s.csv", "id,condition,Score\n1,a = 1,3\n", "'s.csv': expected the column name 'score', got 'Score'"),
    ("s.jsonl", '{"ID": 1, "Condition": "a = 1"}\n', "'s.jsonl': expected the column names 'id' and 'condition', got"),
    (
        "s.csv",
        "id;condition\n1;a = 1\n",
        "'s.csv': expected several columns, got only 'id;condition'; if ';' separates",
    ),
    (
        "s.tsv",
        "id,condition\n1,a = 1\n",
        "'s.tsv': expected several columns, got only 'id,condition'; if ',' separates",
    ),
    ("s.csv", "condition\na = 1\n", "'s.csv': there is no column 'id'; the columns are condition"),
    ("s.csv", "id,text\n1,a = 1\n", "'s.csv': there is neither a column 'condition', nor 'ranges', nor a pair"),
    ("s.csv", "id,condition\n1,a = 1\n2,a = = 1\n", "'s.csv', line 3, subscription 2: "),
    ("s.csv", "id,condition\n1,a = b\n", "'s.csv', line 2, subscription 1: "),
    ("s.csv", "id,condition\n1,a = 1\n2,a = 'x'\n", "'s.csv', line 3, subscription 2: "),
    ("s.csv", "id,condition\n1,a = 1\n1,a = 2\n", "'s.csv', line 3, subscription 1: the id is given twice"),
    ("s.csv", "id,condition\n,a = 1\n", "'s.csv', line 2: "),
    ("s.csv", "id,condition,score\n1,a = 1,high\n", "'s.csv', line 2: expected a float for 'score', got 'high'"),
    (
        "s.csv",
        'id,condition,weights\n1,a = 1,\n2,a = 1,"{a: 1}"\n',
        "'s.csv', line 3: expected JSON for 'weights', got '{a: 1}'",
    ),
    ("s.csv", "id,condition,tags\n1,a = 1,5\n", "'s.csv', line 2, subscription 1: "),
    (
        "s.csv",
        'id,condition,tags\n1,a = 1,"{""t"": 5}"\n',
        "'s.csv', line 2, subscription 1: ",
    ),
    ("s.csv", "id,a_lo,a_hi\n1,5,x\n", "'s.csv', line 2, subscription 1: expected a number for 'a' "),
    ("s.csv", "id,a_lo,a_hi,tags\n1,5,6,5\n", "'s.csv', line 2: expected a JSON object for 'tags', got 5"),
    ("s.csv", 'id,a_lo,a_hi,tags\n1,5,6,"{""t"": 5}"\n', "'s.csv', line 2: 'tags' cannot be read: "),
    (
        "s.csv",
        "id,ranges\n1,[1]\n",
        "'s.csv': expected lists of {attribute, lo, hi} in the column 'ranges', got the type list",
    ),
    ("s.jsonl", '{"id": 1, "condition": "a = 1"}\n\n{"id": 2}\n', "'s.jsonl', line 3, subscription 2: "),
    ("s.jsonl", '{"id": 1, "condition": "a = 1", "weights": 3}\n', "'s.jsonl', line 1, subscription 1: "),
    ("s.jsonl", '{"id": 1, "condition": 5}\n', "'s.jsonl', line 1, subscription 1: "),
    (
        "s.jsonl",
        '{"id": 1, "a_lo": 1, "a_hi": 2}\n{"id": 2, "a_lo": "x"}\n',
        "'s.jsonl': the values of 'a_lo' are not of one type",
    ),
    ("s.jsonl", '{"id": 1, "ranges": 5}\n', "'s.jsonl', line 1: expected a JSON list for 'ranges', got 5"),
    ("s.jsonl", '{"id": 1.5, "condition": "a = 1"}\n', "'s.jsonl', line 1"),
]


@pytest.mark.parametrize(("name", "content", "told"), SUBSCRIPTION_FILES)
def test_subscriptions(earmark: Earmark, tmp_path: Path, name: str, content: str | None, told: str) -> None:
    (tmp_path / "e.csv").write_text("a\n1\n")
    if content is not None:
        (tmp_path / name).write_text(content)
    failed = earmark("match", name, "e.csv")
    assert failed.code == 2
    assert failed.sentence.startswith(told)


def test_a_row_of_parquet(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "s.parquet", [{"id": "a", "condition": "a = 1"}, {"id": "b", "condition": "a LIKE '%x'"}])
    (tmp_path / "e.csv").write_text("a\n1\n")
    assert earmark("match", "s.parquet", "e.csv").sentence.startswith("'s.parquet', row 1, subscription 'b': ")


def test_folders(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "e.csv", VISITORS)
    (tmp_path / "folder").mkdir()
    assert "'folder' is not an earmark book" in earmark("match", "folder", "e.csv").sentence
    assert "there is no file 'gone'" in earmark("match", "gone", "e.csv").sentence
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "CURRENT").touch()
    assert "'snapshot' is not an earmark book" in earmark("match", "snapshot", "e.csv").sentence
    made = Matcher()
    made.add_many(ADS)
    made.save(tmp_path / "ads.earmark")
    assert "'folder' is a folder, not a file" in earmark("match", "ads.earmark", "folder").sentence
    next((tmp_path / "ads.earmark").rglob("*.json")).write_text("{")
    assert earmark("match", "ads.earmark", "e.csv").code == 2


def test_outputs(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", ADS)
    write(tmp_path / "e.csv", VISITORS)
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "link.csv").symlink_to("e.csv")
    before = (tmp_path / "e.csv").read_bytes()
    for name, told in (
        ("folder.csv", "'folder.csv' cannot be written: it is a folder"),
        ("gone/o.csv", "'gone/o.csv' cannot be written: there is no folder 'gone'"),
        ("pipe.csv", "'pipe.csv' cannot be written: it is not a plain file"),
        ("o.xlsx", "expected a .parquet, .csv, .tsv or .jsonl file, got '.xlsx'"),
        ("o" * 300 + ".csv", "cannot be written: File name too long"),
        ("", "this name has no suffix"),
        ("e.csv", "'e.csv' cannot be written: it is read from"),
        ("./ads.csv", "'./ads.csv' cannot be written: it is read from"),
        ("link.csv", "'link.csv' cannot be written: it is read from"),
        ("/dev/full", "this name has no suffix"),
    ):
        assert told in earmark("match", "ads.csv", "e.csv", "-o", name).sentence
    assert not list(tmp_path.glob(".earmark*"))
    assert (tmp_path / "e.csv").read_bytes() == before
    told = "'pipe.csv' cannot be read: it is not a plain file; pipe it into '-' instead"
    assert earmark("match", "ads.csv", "pipe.csv").sentence == told


# Root may read and write everything, unless it gives up just that.
ORDINARY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]


def test_without_permission(script: Path, tmp_path: Path) -> None:
    prefix = ORDINARY if os.geteuid() == 0 else []
    if prefix and shutil.which(prefix[0]) is None:
        pytest.skip("root may read and write everything")
    write(tmp_path / "ads.csv", ADS)
    write(tmp_path / "e.csv", VISITORS)
    write(tmp_path / "secret.csv", VISITORS)
    (tmp_path / "secret.csv").chmod(0)
    (tmp_path / "kept.csv").write_text("old")
    (tmp_path / "kept.csv").chmod(0o400)
    (tmp_path / "locked").mkdir(mode=0o500)
    for arguments, told in (
        (
            ["e.csv", "-o", "locked/o.csv"],
            f"'locked/o.csv' cannot be written: you may not write in the folder '{tmp_path}/locked'",
        ),
        (["e.csv", "-o", "kept.csv"], "'kept.csv' cannot be written: you may not write to it"),
        (["secret.csv"], "'secret.csv' cannot be read as CSV: Permission denied"),
    ):
        command = [*prefix, script, "match", "ads.csv", *arguments]
        failed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        lines = [line for line in failed.stderr.splitlines() if not line.startswith(NOTICE)]
        assert (failed.returncode, failed.stdout, lines) == (2, "", [f"earmark: {told}"])
    assert (tmp_path / "kept.csv").read_text() == "old"
