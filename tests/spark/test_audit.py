"""The audit on Spark says what the audit in one process says, from DataFrames of every kind."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.oracle import generate
from tests.spark.books import Row, book_frame, matcher_of, subscriptions

import earmark
from earmark.spark import audit
from earmark.spark.hygiene.auditing import Homes
from earmark.workload.rectangles import boxes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = ["finding", "subscription", "other", "clause", "text"]
SIMPLE = [
    ("a", "x BETWEEN 0 AND 9"),
    ("b", "x >= 0 AND x < 10"),
    ("c", "x IN (3, 4)"),
    ("d", "x > 5 AND x < 3"),
    ("e", "x = 50 OR (y > 5 AND y < 3)"),
    ("f", "x BETWEEN 3 AND 4 AND s LIKE 'k%'"),
]


def same(found: DataFrame, matcher: earmark.Matcher) -> None:
    """Every row is the in-process audit's; which of several covers is named is free, but it covers and it stays."""
    wanted = matcher.audit()
    assert found.columns == COLUMNS
    rows = [tuple(row) for row in found.collect()]
    told = [tuple(row.values()) for row in wanted.to_arrow().to_pylist()]
    rest = [row for row in rows if row[0] != "covered"]
    assert sorted(rest, key=repr) == sorted((row for row in told if row[0] != "covered"), key=repr)
    covered = {row[1]: row[2] for row in rows if row[0] == "covered"}
    assert len(rows) - len(rest) == len(covered)
    assert covered.keys() == {one.id for one in wanted.covered}
    redundant = set(wanted.redundant)
    for one, other in covered.items():
        assert other not in redundant
        assert other in matcher.covered_by(one)


def narrowed(rows: list[Row]) -> list[Row]:
    """The same book with relatives of some: narrower, written another way, and repeated."""
    more = [{**row, "id": f"{row['id']}-n", "condition": f"({row['condition']}) AND i0 > 3"} for row in rows[::3]]
    more += [{**row, "id": f"{row['id']}-w", "condition": f"({row['condition']}) OR i0 = 7"} for row in rows[::4]]
    return rows + more + [{**row, "id": f"{row['id']}-r"} for row in rows[::5]]


@pytest.mark.parametrize("homes", [1, 5])
def test_a_book_of_every_kind(spark: SparkSession, homes: int) -> None:
    rows = narrowed(subscriptions("audit", 120))
    tried = earmark.Matcher(attributes=generate.SCHEMA)
    good = []
    for row in rows:
        with contextlib.suppress(earmark.SubscriptionError):
            tried.add(**row)
            good.append(row)
    found = audit(book_frame(spark, good), attributes=generate.SCHEMA, homes=homes)
    same(found, matcher_of(good, attributes=generate.SCHEMA))


def test_types_are_learned_as_by_a_matcher(spark: SparkSession) -> None:
    rows: list[Row] = [{"id": name, "condition": text} for name, text in SIMPLE]
    same(audit(book_frame(spark, rows)), matcher_of(rows))


def rectangles(spark: SparkSession, count: int) -> tuple[DataFrame, earmark.Matcher]:
    lo, hi = boxes(count, 5, 0.6, seed=4)
    lo[::20], hi[::20] = lo[: len(lo[::20])], hi[: len(hi[::20])]
    columns = {f"a{i}_{end}": column[:, i] for i in range(5) for end, column in (("lo", lo), ("hi", hi))}
    import pyarrow as pa

    table = pa.table({"id": np.arange(count), **columns})
    matcher = earmark.Matcher()
    matcher.add_many(table, progress=False)
    return spark.createDataFrame(table.to_pandas()).repartition(3), matcher


def test_ready_made_bounds_in_several_homes(spark: SparkSession, tmp_path: Path) -> None:
    frame, matcher = rectangles(spark, 4_000)
    plans: list[Homes] = []
    found = audit(frame, homes=6, working=tmp_path, on_plan=plans.append)
    same(found, matcher)
    assert len(plans) == 1
    assert sum(plans[0].residents) == 4_000
    assert len(plans[0].residents) == 6
    assert 1 < plans[0].replication < 6
    assert "present in" in str(plans[0])


def test_nothing_is_joined(spark: SparkSession) -> None:
    """No cross join, no nested loop, no join at all: each task finds for itself who is present."""
    rows: list[Row] = [{"id": name, "condition": text} for name, text in SIMPLE]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        audit(book_frame(spark, rows)).explain(extended=True)
    plan = printed.getvalue()
    assert "MapInArrow" in plan
    for word in ("Join", "Cartesian", "NestedLoop", "Exchange"):
        assert word not in plan


def test_the_first_in_the_order_stays(spark: SparkSession) -> None:
    data = [("a", "x = 1", 3), ("b", "x = 1", 1), ("c", "x IN (1)", 2)]
    frame = spark.createDataFrame(data, "id string, condition string, rank int")
    found = {row["subscription"]: row["other"] for row in audit(frame, order_by="rank").collect()}
    assert found == {"a": "b", "c": "b"}


def test_nobody_and_integers(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "id long, condition string")
    found = audit(frame)
    assert found.collect() == []
    assert dict(found.dtypes)["subscription"] == "bigint"


@pytest.mark.parametrize("options", [{"homes": 0}, {"homes": True}, {"working": "/nowhere/at/all"}, {"on_error": "x"}])
def test_what_cannot_be(spark: SparkSession, options: dict[str, Any]) -> None:
    frame = spark.createDataFrame(SIMPLE, "id string, condition string")
    with pytest.raises(earmark.EarmarkError):
        audit(frame, **options)


def test_rows_that_cannot_be_taken(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([*SIMPLE, ("z", "x >")], "id string, condition string")
    with pytest.raises(earmark.SubscriptionError, match="nothing was audited, since 1 row cannot be used"):
        audit(frame, working=tmp_path)
    assert not list(tmp_path.iterdir())
    rows = [tuple(row)[:3] for row in audit(frame, on_error="reject").collect()]
    assert len(rows) == 5 + 1
    assert ("rejected", "z", None) in rows
