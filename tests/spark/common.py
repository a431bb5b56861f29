"""What Spark and earmark say of the same conditions and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.oracle.naive import Truth

import earmark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPARK_TYPES = {"integer": "long", "float": "double"}  # the others have the same name


def frame(spark: SparkSession, schema: dict[str, str], rows: list[dict[str, Any]]) -> DataFrame:
    """The rows as a DataFrame with their number in `row`; an absent attribute is NULL."""
    from pyspark.sql.types import StructType

    fields = StructType().add("row", "integer")
    for name, kind in schema.items():
        fields.add(name, SPARK_TYPES.get(kind, kind))
    data = [(number, *(row.get(name) for name in schema)) for number, row in enumerate(rows)]
    return spark.createDataFrame(data, fields).coalesce(1)


def truths(events: DataFrame, conditions: list[str]) -> list[list[Truth]]:
    from pyspark.sql.functions import expr

    answers = events.select("row", *(expr(sql).alias(f"c{i}") for i, sql in enumerate(conditions)))
    by_row = sorted(tuple(answer) for answer in answers.collect())
    return [list(answers) for answers in zip(*by_row, strict=True)][1:]


def kept(events: DataFrame, conditions: list[str]) -> list[set[int]]:
    """The numbers of the rows that each condition keeps as a WHERE."""
    events.createOrReplaceTempView("semantics")
    # A new line, because a condition may end in a comment.
    queries = [f"SELECT {i} AS condition, row FROM semantics WHERE {sql}\n" for i, sql in enumerate(conditions)]
    found: list[set[int]] = [set() for _ in conditions]
    for condition, row in events.sparkSession.sql("UNION ALL ".join(queries)).collect():
        found[condition].add(row)
    return found


def matched(attributes: dict[str, str], conditions: list[str], rows: list[dict[str, Any]]) -> list[set[int] | None]:
    """The numbers of the rows that each condition matches in earmark.

    None where earmark refuses on purpose: a literal that Spark rounds before it compares.
    """
    matcher = earmark.Matcher(attributes=attributes)
    found: list[set[int] | None] = [set() for _ in conditions]
    for number, sql in enumerate(conditions):
        try:
            matcher.add(number, sql)
        except earmark.SubscriptionError as problem:
            if "more than 38 digits, where Spark rounds" not in str(problem):
                raise
            found[number] = None
    for number, row in enumerate(rows):
        for condition in matcher.match(row):
            found[condition].add(number)
    return found
