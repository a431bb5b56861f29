"""Hygiene on Spark: audit, backtest and merging of many subscriptions. Two cores, one session.

    python benchmarks/spark_hygiene.py [--quick] [--parts audit,backtest,merge] [--json FILE]

audit     1,000,000 subscriptions of 5 attributes, as SQL texts in Parquet, 5 % of them repeated; from the file to the
          findings in Parquet, parsing included. Bars: under 10 minutes; duplicates and covered ones are those of the
          in-process covering index over all of them, each named cover covers and is to stay; no join in the plan.
          Printed: how often a subscription is present on average (the price of spreading the work).
backtest  1,000 candidates over 1,000,000 events of 5 attributes in Parquet. Bars: under 2 minutes; every count is
          that of a Matcher.
merge     100,000 subscriptions of w2 with a budget of 5 % of extra traffic, decided by 60,000 events. Bars: the budget
          is kept on the events held back, and on 20,000 others that no part of it saw; no event of these is lost.

With --quick a twentieth of the subscriptions and events; the bars stay. Times are by the clock, since the bars are.
Exit code 1 when a bar is missed or an answer is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from earmark import Matcher
from earmark.cover.audit import first_equal
from earmark.cover.canonical import covers
from earmark.cover.indexes.blocks import CoverBlocks
from earmark.report.protocol import clocked
from earmark.spark import audit, backtest, merge
from earmark.workload import blocks
from earmark.workload.rectangles import BOX_DOMAIN, boxes, table_of
from results import Figure
from spark_runner import ATTRIBUTES, CORES, Report, bounds_of_w2, measured, parser_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AUDIT_BAR, BACKTEST_BAR, BUDGET = 600.0, 120.0, 0.05
WIDEST, REPEATED = 0.6, 0.05
CANDIDATES = 1_000
JOINS = ("Join", "Cartesian", "NestedLoop")


class Clocked(Report):
    """Times of whole calls."""

    def seconds(self, workload: str, size: int, what: str, seconds: float, events: int = 0) -> None:
        self.figures.append(Figure(workload, size, "spark", what, "s", [seconds], events=events))


def as_text(lo: Any, hi: Any) -> list[str]:
    return [
        " AND ".join(f"a{j} BETWEEN {a} AND {b}" for j, (a, b) in enumerate(zip(*pair, strict=True)))
        for pair in zip(lo.tolist(), hi.tolist(), strict=True)
    ]


def plan_of(frame: DataFrame) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain(extended=True)
    return printed.getvalue()


# --- audit -----------------------------------------------------------------------------------------------------------


def rectangles(count: int) -> tuple[Any, Any]:
    lo, hi = boxes(count, 5, WIDEST, seed=4)
    copied = np.flatnonzero(np.random.default_rng(3).random(count) < REPEATED)
    lo[copied], hi[copied] = lo[copied // 2], hi[copied // 2]
    return lo, hi


def audit_part(spark: SparkSession, folder: Path, report: Clocked, scale: int) -> None:
    count = 1_000_000 // scale
    print(f"\naudit of {count:,} subscriptions of 5 attributes", flush=True)
    lo, hi = rectangles(count)
    source, target = folder / "rules.parquet", folder / "findings"
    pq.write_table(pa.table({"id": np.arange(count), "condition": as_text(lo, hi)}), source, row_group_size=50_000)

    def whole() -> DataFrame:
        frame = spark.read.parquet(str(source)).repartition(2 * CORES)
        found = audit(frame, working=folder, on_plan=lambda plan: print(f"  {plan}", flush=True))
        found.write.parquet(str(target))
        return found

    seconds, found = clocked(whole)
    report.seconds("boxes", count, "audit", seconds)
    report.bar(f"{seconds:.1f} s (bar {AUDIT_BAR:.0f})", seconds < AUDIT_BAR)
    plan = plan_of(found)
    report.bar("no join in the plan", not any(word in plan for word in JOINS))
    took, same = clocked(lambda: same_findings(pq.read_table(target), table_of(lo, hi)))
    print(f"  the covering index in this process, from ready arrays: {took:.1f} s")
    report.bar("duplicates and covered ones are the in-process ones, and covers are right", same)


def same_findings(found: pa.Table, table: Any) -> bool:
    """Whether the findings are those of one covering index over all subscriptions."""
    kinds = found["finding"].to_numpy()
    mine, other = (found[name].to_numpy() for name in ("subscription", "other"))
    slots = np.arange(len(table.sequence))
    first = first_equal(table, slots)
    kept = np.flatnonzero(first == slots).astype(np.int32)
    pointers, _ = CoverBlocks.build(table, kept).covering_batch(kept, 1)
    covered = kept[np.diff(pointers) == 1]
    duplicate, is_covered = kinds == "duplicate", kinds == "covered"
    order = np.argsort(mine[duplicate])
    good = np.array_equal(mine[duplicate][order], np.flatnonzero(first != slots))
    good = good and np.array_equal(other[duplicate][order], first[first != slots])
    good = good and np.array_equal(np.sort(mine[is_covered]), covered)
    good = good and not np.isin(other[is_covered], covered).any() and np.isin(other[is_covered], kept).all()
    pairs = zip(other[is_covered].astype(int).tolist(), mine[is_covered].tolist(), strict=True)
    return bool(good and all(covers(table, above, below) for above, below in pairs))


# --- backtest --------------------------------------------------------------------------------------------------------


def backtest_part(spark: SparkSession, folder: Path, report: Clocked, scale: int) -> None:
    count = 1_000_000 // scale
    print(f"\nbacktest of {CANDIDATES:,} candidates over {count:,} events", flush=True)
    texts = as_text(*boxes(CANDIDATES, 5, WIDEST, seed=8))
    values = np.random.default_rng(9).integers(0, BOX_DOMAIN, (count, 5))
    events = pa.table({"event": np.arange(count), **{name: values[:, i] for i, name in enumerate(ATTRIBUTES)}})
    source, target = folder / "past.parquet", folder / "counts"
    pq.write_table(events, source, row_group_size=100_000)

    def whole() -> None:
        frame = spark.read.parquet(str(source)).repartition(2 * CORES)
        backtest(texts, frame, columns=["event"], working=folder).write.parquet(str(target))

    seconds, _ = clocked(whole)
    report.seconds("boxes", CANDIDATES, "backtest", seconds, count)
    report.bar(f"{seconds:.1f} s (bar {BACKTEST_BAR:.0f})", seconds < BACKTEST_BAR)
    matcher = Matcher()
    matcher.add_many(list(enumerate(texts)), progress=False)
    wanted = np.zeros(CANDIDATES, np.int64)
    for first in range(0, count, 100_000):
        wanted += np.bincount(matcher.match_many(events.slice(first, 100_000))["subscription"], minlength=CANDIDATES)
    found = pq.read_table(target).sort_by("subscription")
    print(f"  {int(wanted.sum()):,} matches, {int(wanted.sum()) / count:.2f} an event")
    report.bar("every count is a Matcher's", found["matches"].to_pylist() == wanted.tolist())


# --- merging ------------------------------------------------------------------------------------------------------


def merge_part(spark: SparkSession, folder: Path, report: Clocked, scale: int) -> None:
    count, deciding, others = 100_000 // scale, max(60_000 // scale, 12_000), 20_000
    print(f"\nmerging of {count:,} subscriptions of w2 within {BUDGET:.0%} of extra traffic", flush=True)
    book = bounds_of_w2(count)
    pq.write_table(book, folder / "book.parquet", row_group_size=50_000)
    made = pa.Table.from_batches(blocks.find("w2", "events", form="columns").rows(0, deciding + others))
    events = made.select(ATTRIBUTES)
    pq.write_table(events.slice(0, deciding), folder / "sample.parquet")
    frame, sample = (spark.read.parquet(str(folder / name)) for name in ("book.parquet", "sample.parquet"))
    seconds, found = clocked(lambda: merge(frame, BUDGET, sample, working=folder))
    report.seconds("w2", count, "merge", seconds, deciding)
    print(f"  {found}; {seconds:.1f} s")
    report.bar(f"{found.held_back.share:.2%} on the events held back", found.held_back.share <= BUDGET)
    before, after = Matcher(), Matcher()
    before.add_many(book, progress=False)
    after.add_many([(row["id"], row["condition"]) for row in found.conditions.collect()], progress=False)
    wanted, taken = (set(one.match_many(events.slice(deciding))["event"].to_pylist()) for one in (before, after))
    share = len(taken - wanted) / max(len(wanted), 1)
    report.bar(f"{share:.2%} on {others:,} others", share <= BUDGET)
    report.bar("none of these is lost", wanted <= taken)


PARTS = {"audit": audit_part, "backtest": backtest_part, "merge": merge_part}


def work(spark: SparkSession, folder: Path, options: argparse.Namespace, report: Clocked) -> None:
    for name in options.parts.split(","):
        PARTS[name](spark, folder, report, 20 if options.quick else 1)


def main() -> int:
    parser = parser_of(__doc__, "a twentieth of the sizes; the bars stay")
    parser.add_argument("--parts", default=",".join(PARTS), help="which parts (%(default)s)")
    return measured("spark_hygiene", parser, work, Clocked())


if __name__ == "__main__":
    sys.exit(main())
