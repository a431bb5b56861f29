"""Whatever earmark accepts, Spark accepts and reads the same way: token soup through both.

Every condition that earmark takes must be one that Spark takes as a WHERE, and both must keep the same rows. Two
exceptions are left out: an attribute that no column has is NULL to earmark and an error to Spark; and a clause with a
constant FALSE or NULL in it is dropped before its types are looked at (`d = 3 AND FALSE`), where Spark looks first.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.fuzz.soup import KEYWORDS, text
from tests.oracle import spellings
from tests.spark.common import frame, matched, truths

import earmark
from earmark.language.predicate import And, Condition, Is, Not, Or, Predicate, name_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TEXTS, CONDITIONS, AT_ONCE = 40_000, 400, 100


def predicates(condition: Condition) -> list[Predicate]:
    match condition:
        case And(parts) | Or(parts):
            return [leaf for part in parts for leaf in predicates(part)]
        case Not(part) | Is(part, _):
            return predicates(part)
        case Predicate():
            return [condition]
    return []


def accepted(rng: random.Random) -> list[str]:
    """Different conditions on our attributes that earmark accepts whole and in parts, out of nearly right texts."""
    found: dict[str, None] = {}
    for _ in range(TEXTS):
        sql = text(rng)
        try:
            matcher = earmark.Matcher(attributes=spellings.ATTRIBUTES)
            matcher.add("whole", sql)
            matcher.add_many((str(i), part) for i, part in enumerate(predicates(earmark.parse(sql))))
        except earmark.SubscriptionError:
            continue
        if len(matcher.stats()["attributes"]) == len(spellings.ATTRIBUTES):
            found[sql] = None
        if len(found) == CONDITIONS:
            break
    return list(found)


@pytest.mark.parametrize("seed", ["one", "two"])
def test_what_is_accepted_is_read_as_spark_reads_it(spark: SparkSession, seed: str) -> None:
    from pyspark.errors import PySparkException

    rows = spellings.rows_that_tell()
    events = frame(spark, spellings.ATTRIBUTES, rows)
    conditions, refused, misread = [], [], []
    for sql in accepted(random.Random(f"fuzz {seed}")):
        try:
            events.where(sql)
            conditions.append(sql)
        except PySparkException as problem:
            refused.append((sql, str(problem)[:200]))
    assert not refused
    assert len(conditions) > CONDITIONS / 2
    for start in range(0, len(conditions), AT_ONCE):
        some = conditions[start : start + AT_ONCE]
        found = matched(spellings.ATTRIBUTES, some, rows)
        for sql, answers, got in zip(some, truths(events, some), found, strict=True):
            expected = {row for row, answer in enumerate(answers) if answer is True}
            if got != expected:
                misread.append((sql, [rows[row] for row in (got or set()) ^ expected]))
    assert not misread


def test_words_as_names(spark: SparkSession) -> None:
    """A word of SQL is a name where earmark takes it for one, and its quoted spelling always is."""
    rows = [{word: i % 2 for i, word in enumerate(KEYWORDS)}, {word: 3 for word in KEYWORDS}, {}]
    events = frame(spark, dict.fromkeys(KEYWORDS, "integer"), rows)
    conditions = [f"{name_sql(word)} = 3" for word in KEYWORDS]
    conditions += [f"{name_sql(word)} IS NOT NULL AND NOT {name_sql(word)} > 3" for word in KEYWORDS]
    for word in KEYWORDS:
        for sql in (f"{word} = 3", f"NOT {word} IN (1, 2)", f"0 < {word}"):
            try:
                earmark.parse(sql)
            except earmark.SubscriptionError:
                continue
            conditions.append(sql)
    found = matched(dict.fromkeys(KEYWORDS, "integer"), conditions, rows)
    for sql, answers, got in zip(conditions, truths(events, conditions), found, strict=True):
        assert got == {row for row, answer in enumerate(answers) if answer is True}, sql
