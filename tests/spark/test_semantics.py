"""Spark SQL, the naive evaluator and earmark give the same answer for every condition and row.

One Spark job answers a whole group of conditions as values (TRUE, FALSE, unknown), another what WHERE keeps.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.oracle import generate, spellings
from tests.oracle.naive import Truth, evaluate
from tests.oracle.syntax import Node, to_sql
from tests.spark.common import frame, kept, matched, truths

import earmark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

GROUPS, CONDITIONS, ROWS = 4, 80, 40
WHERE_STEP = 4  # WHERE costs Spark a plan for each condition, so every fourth only


class Verdicts(NamedTuple):
    """A group of conditions on some rows and what Spark says: truths[condition][row]."""

    conditions: list[Node]
    rows: list[dict[str, Any]]
    truths: list[list[Truth]]
    events: DataFrame


@pytest.fixture(scope="module", params=range(GROUPS))
def verdicts(request: pytest.FixtureRequest, spark: SparkSession) -> Verdicts:
    rng = random.Random(f"semantics {request.param}")
    conditions = [generate.condition(rng) for _ in range(CONDITIONS)]
    rows = [generate.row(rng, near=rng.choice(conditions)) for _ in range(ROWS - 2)]
    rows += [{}, generate.row(rng, missing=0.0)]
    events = frame(spark, generate.SCHEMA, rows)
    return Verdicts(conditions, rows, truths(events, [to_sql(condition) for condition in conditions]), events)


def test_naive_evaluator_is_spark(verdicts: Verdicts) -> None:
    wrong = [
        (to_sql(condition), row, expected)
        for condition, answers in zip(verdicts.conditions, verdicts.truths, strict=True)
        for row, expected in zip(verdicts.rows, answers, strict=True)
        if evaluate(condition, row) is not expected
    ]
    assert not wrong


def test_where_keeps_what_is_true(verdicts: Verdicts) -> None:
    texts = [to_sql(condition) for condition in verdicts.conditions[::WHERE_STEP]]
    for sql, answers, rows in zip(texts, verdicts.truths[::WHERE_STEP], kept(verdicts.events, texts), strict=True):
        assert rows == {row for row, answer in enumerate(answers) if answer is True}, sql


def test_earmark_is_spark(verdicts: Verdicts) -> None:
    texts = [to_sql(condition) for condition in verdicts.conditions]
    found = matched(dict(generate.SCHEMA), texts, verdicts.rows)
    assert sum(rows is None for rows in found) < len(found) / 5  # the generator is fond of long decimals
    for sql, answers, rows in zip(texts, verdicts.truths, found, strict=True):
        expected = {row for row, answer in enumerate(answers) if answer is True}
        assert rows is None or rows == expected, (sql, [verdicts.rows[row] for row in rows ^ expected])


def misread(spark: SparkSession, conditions: list[str]) -> list[tuple[str, set[int], set[int]]]:
    """The conditions for which earmark and Spark differ, with the rows that each keeps."""
    rows = spellings.rows_that_tell()
    answers = truths(frame(spark, spellings.ATTRIBUTES, rows), conditions)
    expected = [{row for row, answer in enumerate(of_rows) if answer is True} for of_rows in answers]
    found = matched(spellings.ATTRIBUTES, conditions, rows)
    return [pair for pair in zip(conditions, found, expected, strict=True) if pair[1] not in (None, pair[2])]


def test_spellings_are_read_as_spark_reads_them(spark: SparkSession) -> None:
    assert not misread(spark, spellings.UNDERSTOOD)


def test_other_spellings_are_refused_or_read_as_spark_reads_them(spark: SparkSession) -> None:
    accepted = []
    for sql in spellings.NOT_MISREAD:
        try:
            earmark.Matcher(attributes=spellings.ATTRIBUTES).add("one", sql)
        except earmark.SubscriptionError:
            continue
        accepted.append(sql)
    assert not misread(spark, accepted)


@pytest.mark.parametrize("sql", ["", " ", *spellings.REFUSED])
def test_what_spark_refuses_is_refused(sql: str) -> None:
    matcher = earmark.Matcher(attributes=spellings.ATTRIBUTES)
    with pytest.raises(earmark.SubscriptionError):
        matcher.add("one", sql)


def test_spark_refuses_what_is_listed_as_refused(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    events = frame(spark, spellings.ATTRIBUTES, spellings.rows_that_tell())
    events.createOrReplaceTempView("semantics")
    accepted = []
    for sql in spellings.REFUSED:
        try:
            spark.sql(f"SELECT row FROM semantics WHERE {sql}\n").collect()
        except PySparkException:
            continue
        accepted.append(sql)
    assert not accepted
