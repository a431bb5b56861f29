"""publish, stream, match --engine spark and demo --spark, against what the library says.

Most run in this process and in the session of the tests; one run of the real executable shows that the rest is right.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from earmark import Matcher

from .conftest import NOTICE, Earmark, Result
from .test_commands import ADS, VISITORS, matcher, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MASTER = ["--master", "local[2]", "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
CHANGES = [
    {"id": "d", "condition": "age > 0", "score": 9.0, "op": "add"},
    {"id": "a", "condition": None, "score": None, "op": "remove"},
]


def run(script: Path, folder: Path, *arguments: str) -> Result:
    """A process of its own each: Java and forked interpreters do not go together."""
    environment = {**os.environ, "COLUMNS": "100", "EARMARK_QUIET": "1"}
    done = subprocess.run(
        [script, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=280
    )
    told = [line for line in done.stderr.splitlines(keepends=True) if not line.startswith(NOTICE)]
    return Result(done.returncode, done.stdout, "".join(told))


@pytest.fixture
def here(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Run a command in this process, in the test's folder, with the session of the tests."""
    from earmark.cli import app

    @contextlib.contextmanager
    def session(master: str, conf: dict[str, str]) -> Iterator[SparkSession]:
        from earmark.spark.sentences import sentence_of

        try:
            yield spark
        except Exception as problem:
            raise sentence_of(problem) from problem

    monkeypatch.setattr("earmark.cli.spark.session", session)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Result:
        code, message = app.main._outcome(args=list(arguments), prog_name="earmark", standalone_mode=False)
        out, err = capsys.readouterr()
        told = "".join(line for line in err.splitlines(keepends=True) if line.startswith(OURS))
        return Result(code, out, told if message is None else f"earmark: {message}\n")

    return run


OURS = (*"0123456789", "batch", "loaded", "published", "  ")  # Spark writes to stderr as well


@pytest.fixture
def folder(here: Callable[..., Result], tmp_path: Path) -> Path:
    """ads.csv, visitors.parquet, and ads.snapshot, published from the file."""
    write(tmp_path / "ads.csv", ADS)
    write(tmp_path / "visitors.parquet", VISITORS)
    told = here("publish", "ads.csv", "ads.snapshot")
    assert (told.code, told.out) == (0, "ads.snapshot: version 1, 3 subscriptions\n"), told
    assert re.fullmatch(r"published in [\d.]+ s\n", told.err)
    return tmp_path


def rounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "score": round(row["score"], 9)} for row in rows]


def test_match_and_top_k(here: Callable[..., Result], folder: Path) -> None:
    """The same rows in the same order as in this process: of a snapshot on stdout, of a file in a file."""
    found = here("match", "ads.snapshot", "visitors.parquet", "--engine", "spark", "--json")
    assert rounded(found.rows()) == rounded(matcher().match_many(VISITORS).to_pylist())
    assert found.err == ""
    target = ["-o", "best.parquet", "--event-id", "who", "-k", "1", "--mode", "relaxed", "--weight", "age=2"]
    found = here("top-k", "ads.csv", "visitors.parquet", "--engine=spark", *target)
    assert re.match(r"loaded 3 subscriptions in [\d.]+ s; 4 events in [\d.]+ s.*: \d results\n", found.err), found
    best = matcher().top_k_many(VISITORS, 1, mode="relaxed", weights={"age": 2}).to_pylist()
    wanted = [{**row, "event": VISITORS[row["event"]]["who"]} for row in best]
    assert rounded(pq.read_table(folder / "best.parquet").to_pylist()) == rounded(wanted)


def test_folders_in_and_out(here: Callable[..., Result], folder: Path) -> None:
    (folder / "crowd").mkdir()
    for number in range(2):
        pq.write_table(pq.read_table(folder / "visitors.parquet"), folder / "crowd" / f"{number}.parquet")
    (folder / "empty").mkdir()
    arguments = ["match", "ads.snapshot", "crowd", "--engine", "spark", "--event-id", "who"]
    (summary,) = here(*arguments, "-o", "found", "--json").rows()
    assert (summary["events"], summary["results"], summary["output"]) == (8, 8, "found")
    assert pq.read_table(folder / "found").num_rows == 8
    assert "'found' exists" in here(*arguments, "-o", "found").sentence
    csv = here(*arguments, "--scope", "tenant=x")
    assert csv.out.splitlines()[0] == '"event","subscription","score"'
    assert len(csv.out.splitlines()) == 5
    assert "has no column 'name' to name events by" in here(*arguments[:-1], "name").sentence
    assert "a book has its own types" in here(*arguments, "--zone", "UTC").sentence


def test_a_saved_folder(here: Callable[..., Result], tmp_path: Path) -> None:
    """It is published with its types, in its order."""
    m = Matcher(attributes={"day": "date", "price": "decimal(9,2)"})
    m.add_many(ADS)
    m.add("later", "day >= '2024-02-01' AND price < 0.30 AND at >= TIMESTAMP '2024-06-01 10:00:00'")
    m.save(tmp_path / "ads.earmark")
    day, at = date(2024, 2, 1), datetime(2024, 6, 1, 10, tzinfo=UTC)
    events = pa.Table.from_pylist([{**VISITORS[0], "day": day, "price": Decimal("0.29"), "at": at}, *VISITORS[1:]])
    pq.write_table(events, tmp_path / "e.parquet")
    wanted = rounded(m.match_many(events).to_pylist())
    assert "later" in {row["subscription"] for row in wanted}
    assert here("publish", "ads.earmark", "ads.snapshot").out == "ads.snapshot: version 1, 4 subscriptions\n"
    for source in ("ads.snapshot", "ads.earmark"):
        assert rounded(here("match", source, "e.parquet", "--engine", "spark", "--json").rows()) == wanted
    assert "which has no column op" in here("publish", "ads.earmark", "ads.snapshot", "--changes").sentence
    assert "has its own types" in here("publish", "ads.earmark", "s", "--zone", "UTC").sentence


def test_changes_and_a_stream(here: Callable[..., Result], folder: Path) -> None:
    """Two runs of a stream, with changes in between; the second sees them."""
    (folder / "arriving").mkdir()
    arguments = ["stream", "arriving", "ads.snapshot", "hits", "--column", "who", "--once"]
    assert "has no .parquet file yet" in here(*arguments).sentence
    pq.write_table(pq.read_table(folder / "visitors.parquet"), folder / "arriving" / "1.parquet")
    (first,) = here(*arguments, "--json").rows()
    assert (first["batch"], first["version"], first["rows"]) == (0, 1, 4)
    write(folder / "changes.jsonl", CHANGES)
    (summary,) = here("publish", "changes.jsonl", "ads.snapshot", "--changes", "--json").rows()
    assert (summary["version"], summary["kind"], summary["subscriptions"]) == (2, "delta", 3)
    pq.write_table(pq.read_table(folder / "visitors.parquet"), folder / "arriving" / "2.parquet")
    told = here(*arguments)
    assert (told.code, told.out) == (0, "")
    assert re.match(r"batch 1: version 2, [\d.]+ s, 4 events \(\d+ per second\), \d matches\n", told.err)
    rows = [pq.read_table(part).to_pylist() for part in (folder / "hits" / "batch=1").glob("*.parquet")]
    assert sorted(row["who"] for part in rows for row in part if row["subscription"] == "d") == ["u", "v", "x"]
    assert "belongs to a stream with another checkpoint" in here(*arguments, "--checkpoint", "other").sentence
    write(folder / "changes.csv", [{"id": "b", "op": "drop"}])
    assert (
        "line 2: expected one of add, update, upsert, remove for 'op', got 'drop'"
        in here("publish", "changes.csv", "ads.snapshot", "--changes").sentence
    )


def test_bad_subscriptions(here: Callable[..., Result], tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", [*ADS, {"id": "z", "condition": "age >", "weights": None, "score": 0.0, "tags": None}])
    failed = here("publish", "ads.csv", "s")
    assert failed.code == 2
    assert "'z'" in failed.sentence
    assert not (tmp_path / "s" / "CURRENT").exists()
    set_aside = here("publish", "ads.csv", "s", "--reject")
    assert set_aside.out == "s: version 1, 3 subscriptions\n"
    assert set_aside.err.startswith("1 row rejected:\n  z: ")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_as_a_process(script: Path, tmp_path: Path) -> None:
    """Nothing of Spark's or Java's on stderr; a failure to start is a sentence."""
    write(tmp_path / "ads.csv", ADS)
    write(tmp_path / "visitors.parquet", VISITORS)
    found = run(script, tmp_path, "match", "ads.csv", "visitors.parquet", "--engine", "spark", "--json", *MASTER)
    assert rounded(found.rows()) == rounded(matcher().match_many(VISITORS).to_pylist())
    assert found.err == ""
    failed = run(script, tmp_path, "publish", "ads.csv", "s", "--master", "nowhere")
    assert failed.code == 2
    assert failed.sentence.startswith("Spark did not start with the master 'nowhere': ")


def test_sentences_without_a_session(earmark: Earmark, tmp_path: Path) -> None:
    """What is wrong in the arguments is told before Java starts."""
    write(tmp_path / "ads.csv", ADS)
    write(tmp_path / "v.csv", VISITORS)
    write(tmp_path / "v.parquet", VISITORS)
    (tmp_path / "out").mkdir()
    for told, arguments in {
        "there is no file 'none.csv'": ["publish", "none.csv", "s"],
        "--changes keep the types": ["publish", "ads.csv", "s", "--changes", "--zone", "UTC"],
        "'v.csv': --engine spark reads events from a Parquet file": ["match", "ads.csv", "v.csv", "--engine", "spark"],
        "'out' is a folder, whose rows have no order": ["match", "ads.csv", "out", "--engine", "spark"],
        "'out' exists: Spark writes a new folder": ["match", "ads.csv", "v.parquet", "--engine", "spark", "-o", "out"],
        "standard input: --engine spark reads events from a Parquet file": [
            *("match", "ads.csv", "-", "--format", "parquet", "--engine", "spark")
        ],
        "there is no index called 'b_tree'": ["publish", "ads.csv", "s", "--index", "b_tree"],
        "--master is for --engine spark": ["match", "ads.csv", "v.csv", "--master", "local[1]"],
        "--threads is for --engine local": ["match", "ads.csv", "v.csv", "--threads", "2", "--engine", "spark"],
        "--once and --every exclude each other": ["stream", "out", "s", "hits", "--once", "--every", "5 seconds"],
        "'x' is not of the form KEY=VALUE": ["publish", "ads.csv", "s", "--conf", "x"],
    }.items():
        failed = earmark(*arguments)
        assert failed.code == 2
        assert told in failed.sentence


@pytest.mark.slow
def test_what_spark_throws_is_a_sentence(script: Path, tmp_path: Path) -> None:
    write(tmp_path / "ads.csv", ADS)
    write(tmp_path / "visitors.parquet", VISITORS)
    (tmp_path / "bad.parquet").write_bytes((tmp_path / "visitors.parquet").read_bytes()[:-20])
    failed = run(script, tmp_path, "match", "ads.csv", "bad.parquet", "--engine", "spark", *MASTER)
    assert failed.code == 2
    assert failed.sentence


@pytest.mark.slow
def test_a_stream_until_ctrl_c(script: Path, here: Callable[..., Result], folder: Path) -> None:
    """It goes on until it is told to stop, leaves nothing half-written, and then goes on where it was."""
    (folder / "coming").mkdir()
    table = pq.read_table(folder / "visitors.parquet")
    pq.write_table(table, folder / "coming" / "1.parquet")
    command = [script, "stream", "coming", "ads.snapshot", "found", "--every", "1 second", "--json", *MASTER]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for number in range(2):
            assert json.loads(process.stdout.readline())["batch"] == number
            pq.write_table(pa.concat_tables([table] * 2), folder / "coming" / f"{number + 2}.parquet")
        time.sleep(0.5)
        process.send_signal(2)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "earmark: interrupted; nothing was left half-written"
    assert here("stream", "coming", "ads.snapshot", "found", "--once").code == 0
    found = sorted((folder / "found").glob("batch=*/_earmark.json"))
    assert sum(json.loads(file.read_text())["rows"] for file in found) == 4 + 8 + 8


@pytest.mark.slow
def test_the_demo(here: Callable[..., Result]) -> None:
    shown = here("demo", "--spark", "--campaigns", "300", "--visitors", "60", "--json")
    (figures,) = shown.rows()
    assert figures["campaigns"] == 300
    assert figures["versions"] == [1, 2]
    assert figures["stream_batches"] >= 5
    assert "'everybody' added, 'ad-0' removed" in shown.err
