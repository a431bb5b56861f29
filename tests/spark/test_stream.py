"""Streams with live subscriptions: one version a batch, nothing lost, nothing twice, whatever happens in between."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from earmark import EarmarkError, Matcher
from earmark.spark import Snapshot, read_matches, stream, workload
from earmark.spark.sinks import MicroBatch, Pins, Report, Sink
from earmark.workload.ads import Campaigns, visitors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

CAMPAIGNS, BATCH = 200, 30
ONCE = {"availableNow": True}
CHANGES: list[dict[str, Any]] = [
    {"id": "everybody", "condition": "age >= 0", "score": 7.0, "op": "add"},
    {"id": "ad-3", "condition": "age < 0", "score": 0.0, "op": "update"},
    {"id": "ad-5", "condition": None, "score": None, "op": "remove"},
]
Row = tuple[int, str, float]


@pytest.fixture
def ads(spark: SparkSession, tmp_path: Path, published: Path) -> Path:
    """A snapshot with one version, of this test's own."""
    return Path(shutil.copytree(published, tmp_path / "ads"))


@pytest.fixture(scope="module")
def published(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("published") / "ads"
    Snapshot.publish(workload(spark, "ads", "subscriptions", CAMPAIGNS), path)
    return path


def change(spark: SparkSession, ads: Path) -> int:
    """The next version: CHANGES the first time, one new campaign each time after."""
    snapshot = Snapshot.open(ads)
    changes = CHANGES
    if snapshot.version > 1:
        changes = [{"id": f"new-{snapshot.version}", "condition": "age > 30", "score": 1.0, "op": "add"}]
    names = ["id", "condition", "score", "op"]
    rows = [tuple(one[name] for name in names) for one in changes]
    return snapshot.apply(spark.createDataFrame(rows, "id string, condition string, score double, op string")).version


def matcher(version: int) -> Matcher:
    made = Matcher()
    made.add_many(Campaigns(CAMPAIGNS))
    for number in range(1, version):
        if number > 1:
            made.add(f"new-{number}", "age > 30", score=1.0)
            continue
        made.add("everybody", "age >= 0", score=7.0)
        made.update("ad-3", "age < 0", weights=None, score=0.0, tags=None)
        made.remove("ad-5")
    return made


def expected(version: int, first: int, end: int) -> Counter[Row]:
    found = matcher(version).match_many(list(visitors(end))[first:end]).to_pylist()
    return Counter((row["event"] + first, row["subscription"], round(row["score"], 9)) for row in found)


def arriving(spark: SparkSession, rows: int, **options: Any) -> DataFrame:
    return workload(spark, "ads", "events", rows, stream=True, rowsPerBatch=BATCH, **options)


def run(spark: SparkSession, ads: Path, rows: int, **options: Any) -> list[Report]:
    """Stream so many events to their end; the reports of all batches until now."""
    running = stream(
        arriving(spark, rows), ads, ads.parent / "hits", ads.parent / "checkpoint",
        columns=["event"], trigger=ONCE, **options,
    )  # fmt: skip
    assert running.await_end()
    return running.reports()


def batches(spark: SparkSession, ads: Path) -> dict[int, Counter[Row]]:
    """What is in the sink, by batch."""
    found: dict[int, Counter[Row]] = {}
    for row in read_matches(spark, ads.parent / "hits").collect():
        found.setdefault(row.batch, Counter())[(row.event, row.subscription, round(row.score, 9))] += 1
    return found


def pins(ads: Path) -> list[str]:
    return sorted(path.name for path in (ads / "pins").glob("*")) if (ads / "pins").exists() else []


def run_again(ads: Path, batch: int) -> None:
    """Make Spark believe that a batch was not finished, as after a kill."""
    for name in (str(batch), f".{batch}.crc"):
        (ads.parent / "checkpoint" / "commits" / name).unlink(missing_ok=True)


def test_every_batch_sees_one_version(spark: SparkSession, ads: Path) -> None:
    told: list[Report] = []
    assert [r.version for r in run(spark, ads, 2 * BATCH, on_progress=told.append)] == [1, 1]
    assert change(spark, ads) == 2
    reports = run(spark, ads, 3 * BATCH + 10, on_progress=told.append)
    assert [(r.batch, r.version, r.rows) for r in reports] == [(0, 1, 30), (1, 1, 30), (2, 2, 30), (3, 2, 10)]
    assert told == reports
    found = batches(spark, ads)
    for report in reports:
        first = report.batch * BATCH
        assert found[report.batch] == expected(report.version, first, first + report.rows)
        assert report.matches == sum(found[report.batch].values())
    assert pins(ads) == []
    assert str(reports[3]).startswith("batch 3: version 2, ")
    # Started once more, there is nothing to do.
    assert run(spark, ads, 3 * BATCH + 10) == reports


def test_a_batch_that_runs_again(spark: SparkSession, ads: Path) -> None:
    """Done, it is left alone; half-written, it is written anew with the version it saw; and a newer one follows."""
    run(spark, ads, 2 * BATCH)
    hits = ads.parent / "hits"
    change(spark, ads)
    run_again(ads, 1)
    before = sorted((p.name, p.stat().st_mtime_ns) for p in (hits / "batch=1").iterdir())
    assert [r.version for r in run(spark, ads, 2 * BATCH)] == [1, 1]
    assert sorted((p.name, p.stat().st_mtime_ns) for p in (hits / "batch=1").iterdir()) == before

    run_again(ads, 1)
    (hits / "batch=1" / "_earmark.json").unlink()
    next((hits / "batch=1").glob("*.parquet")).write_bytes(b"half")
    assert set(batches(spark, ads)) == {0}
    assert [r.version for r in run(spark, ads, 3 * BATCH)] == [1, 1, 2]
    assert batches(spark, ads) == {
        0: expected(1, 0, BATCH),
        1: expected(1, BATCH, 2 * BATCH),
        2: expected(2, 2 * BATCH, 3 * BATCH),
    }


def test_a_failed_batch_keeps_its_version(spark: SparkSession, ads: Path) -> None:
    """A function as a sink fails once; its version stays although it is old and all old ones are removed."""
    calls: list[tuple[MicroBatch, Counter[Row]]] = []
    failing = True

    def sink(matches: DataFrame, batch: MicroBatch) -> None:
        rows = Counter((row.event, row.subscription, round(row.score, 9)) for row in matches.collect())
        if batch.id == 1 and failing:
            raise ValueError("the disk is full")
        calls.append((batch, rows))

    def start() -> Any:
        return stream(arriving(spark, 3 * BATCH), ads, sink, ads.parent / "checkpoint", columns=["event"], trigger=ONCE)

    with pytest.raises(EarmarkError, match="Spark failed: ValueError: the disk is full"):
        start().await_end()
    assert len(pins(ads)) == 1
    change(spark, ads)
    newest = change(spark, ads)
    assert Snapshot.open(ads).compact().version == newest + 1
    assert 1 not in Snapshot.open(ads).retain(1)
    failing = False
    running = start()
    assert running.await_end()
    assert [(batch.id, batch.version) for batch, _ in calls] == [(0, 1), (1, 1), (2, newest + 1)]
    assert calls[1][1] == expected(1, BATCH, 2 * BATCH)
    assert calls[2][1] == expected(newest, 2 * BATCH, 3 * BATCH)
    assert pins(ads) == []
    assert [(r.version, r.rows) for r in running.reports()] == [(1, None), (1, None), (newest + 1, None)]
    assert 1 in Snapshot.open(ads).retain(1)


def test_a_pin_that_no_batch_needs_is_taken_back(spark: SparkSession, ads: Path) -> None:
    """Killed between the pin and the note of it: the version would stay for ever."""
    first = stream(arriving(spark, BATCH), ads, ads.parent / "hits", ads.parent / "checkpoint", trigger=ONCE)
    first.await_end()
    Snapshot.open(ads).pin(first.work.owner)
    Snapshot.open(ads).pin("somebody-else")
    assert len(pins(ads)) == 2
    run_all = stream(arriving(spark, BATCH), ads, ads.parent / "hits", ads.parent / "checkpoint", trigger=ONCE)
    run_all.await_end()
    assert pins(ads) == ["00000001.somebody-else"]


def test_options_reach_the_search(spark: SparkSession, ads: Path) -> None:
    from pyspark.sql import functions as f

    events = arriving(spark, BATCH).withColumn("at", f.timestamp_seconds(f.col("event")))
    running = stream(
        events, ads, ads.parent / "hits", f"file://{ads.parent}/checkpoint", k=2, columns=["event"],
        scope={"tenant": "acme"}, weights={"age": 3.0}, event_time="at", trigger=ONCE, name="best",
    )  # fmt: skip
    running.await_end()
    (report,) = running.reports()
    assert report.lag is not None
    assert report.lag == pytest.approx(report.committed - (BATCH - 1), abs=5)
    assert ", lag " in str(report)
    best = matcher(1).top_k_many(list(visitors(BATCH)), 2, weights={"age": 3.0}, scope={"tenant": "acme"}).to_pylist()
    wanted = Counter((row["event"], round(row["score"], 9)) for row in best)
    assert Counter((event, score) for event, _, score in batches(spark, ads)[0].elements()) == wanted


def test_stop_and_go_on(spark: SparkSession, ads: Path) -> None:
    events = workload(spark, "ads", "events", stream=True, rowsPerBatch=BATCH, rowsPerSecond=2 * BATCH)
    told: list[Report] = []
    running = stream(events, ads, ads.parent / "hits", ads.parent / "checkpoint", on_progress=told.append)
    while len(told) < 2:
        assert not running.await_end(0.1)
    assert running.active
    running.stop()
    assert not running.active
    done = running.reports()
    assert told == done
    found = batches(spark, ads)
    assert sum(r.matches or 0 for r in done) == sum(sum(one.values()) for one in found.values())
    assert set(found) <= {r.batch for r in done}


def test_a_callback_that_fails(spark: SparkSession, ads: Path) -> None:
    def fail(report: Report) -> None:
        raise KeyError(report.batch)

    running = stream(arriving(spark, BATCH), ads, ads.parent / "hits", ads.parent / "c", on_progress=fail, trigger=ONCE)
    with pytest.raises(KeyError):
        running.await_end()
    assert len(running.reports()) == 1


def test_sentences(spark: SparkSession, ads: Path, tmp_path: Path) -> None:
    events = arriving(spark, BATCH)

    def refused(told: str, *arguments: Any, **options: Any) -> None:
        with pytest.raises(EarmarkError, match=told):
            stream(*arguments, **options)

    hits, checkpoint = tmp_path / "hits", tmp_path / "checkpoint"
    refused("needs a streaming DataFrame", workload(spark, "ads", "events", 5), ads, hits, checkpoint)
    refused("is not an earmark book", events, tmp_path / "none", hits, checkpoint)
    refused("the sink 's3://b/hits' is not a path", events, ads, "s3://b/hits", checkpoint)
    refused("which Spark would take for a pattern", events, ads, tmp_path / "a*b", checkpoint, trigger=ONCE)
    refused("mode 'relaxed' ranks, so it needs k", events, ads, hits, checkpoint, mode="relaxed")
    refused("has no column 'who'", events, ads, hits, checkpoint, columns=["who"])
    assert not hits.exists()
    stream(events, ads, hits, checkpoint, trigger=ONCE).await_end()
    refused("the sink .* belongs to a stream with another checkpoint", events, ads, hits, tmp_path / "other")
    refused("the checkpoint .* belongs to a stream with another sink", events, ads, tmp_path / "more", checkpoint)
    refused("holds matches with other columns", events, ads, hits, checkpoint, columns=["event"])
    with pytest.raises(EarmarkError, match="is not a sink that a stream of earmark writes to"):
        read_matches(spark, ads)


# --- the ledger, without Spark -------------------------------------------------------------------------------

REPORT = Report(3, 2, 4, 10, 20, 1.5, None, 0.0)


def test_a_batch_counts_from_its_report_on(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    (tmp_path / "batch=3").mkdir()
    assert sink.done(3) is None
    assert sink.batches() == []
    sink.commit(REPORT)
    assert sink.done(3) == REPORT
    assert sink.batches() == [3]
    assert (tmp_path / "batch=3" / "_earmark.json").stat().st_mode & 0o777 == 0o644
    (tmp_path / "batch=3" / "_earmark.json").write_text("{")
    with pytest.raises(EarmarkError, match="cannot be read"):
        sink.done(3)
    assert str(REPORT) == "batch 3: version 2 (2 behind), 1.5 s, 10 events (7 per second), 20 matches"
    assert Report(**asdict(REPORT)) == REPORT


def test_old_pins_are_forgotten(tmp_path: Path) -> None:
    kept = Pins(tmp_path)
    assert kept.batches() == []
    assert kept.get(0) is None
    for batch in range(230):
        kept.put(batch, batch + 1)
    assert kept.batches() == list(range(30, 230))
    assert kept.get(229) == 230
