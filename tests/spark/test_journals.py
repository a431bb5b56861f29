"""A book with a journal and Spark: Spark matches its checkpoints; what Spark published goes on with a journal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.oracle import generate
from tests.spark.books import answers, book_frame, event_frame, events, expected, in_order, subscriptions

import earmark
from earmark import Matcher, TableError
from earmark.book import care
from earmark.spark import Snapshot, match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROWS = events("journals", 25)


def check(spark: SparkSession, path: Path, m: Matcher, **version: Any) -> None:
    """Spark answers as a matcher does."""
    found = match(event_frame(spark, ROWS), Snapshot.open(path, **version), columns=["row"])
    assert answers(found) == expected(m.match_many(ROWS))


def test_spark_matches_checkpoints(spark: SparkSession, tmp_path: Path) -> None:
    rows = subscriptions("journals", 40)
    with earmark.open(tmp_path / "b", attributes=generate.SCHEMA) as m:
        m.add_many(in_order(rows))
        m.checkpoint()
        first = m.as_of(m.last_change)
        check(spark, tmp_path / "b", m)
        m.remove_many(m.ids()[::3])
        check(spark, tmp_path / "b", first)  # until there is another checkpoint
        m.checkpoint()
        check(spark, tmp_path / "b", m)
        check(spark, tmp_path / "b", first, version=1)


@pytest.mark.parametrize("shards", [1, 2])
def test_what_spark_published_goes_on(spark: SparkSession, tmp_path: Path, shards: int) -> None:
    rows = subscriptions("journals", 40)
    Snapshot.publish(book_frame(spark, rows), tmp_path / "b", shards=shards, attributes=generate.SCHEMA)
    before = Matcher.load(tmp_path / "b")
    with earmark.open(tmp_path / "b") as m:
        assert [m[id] for id in m.ids()] == [before[id] for id in before.ids()]
        assert expected(m.match_many(ROWS)) == expected(before.match_many(ROWS))
        m.remove_many(m.ids()[::2])
        m.checkpoint()
        check(spark, tmp_path / "b", m)
        assert m.as_of(1).ids() == before.ids()
    assert care.check(tmp_path / "b") == []


def test_spark_does_not_publish_into_a_journal(spark: SparkSession, tmp_path: Path) -> None:
    rows = subscriptions("journals", 10)
    with earmark.open(tmp_path / "b") as m:
        m.add("a", "TRUE")
    sentence = "is its journal, so nothing is saved or published there; change it through"
    with pytest.raises(TableError, match=sentence):
        Snapshot.publish(book_frame(spark, rows), tmp_path / "b", attributes=generate.SCHEMA)
    with pytest.raises(TableError, match=sentence):
        Snapshot.open(tmp_path / "b").compact()
    assert earmark.open(tmp_path / "b", readonly=True, follow=False).ids() == ["a"]


def test_nothing_of_what_spark_published_stays_after_an_erasure(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(n, f"city = 'c{n}'", f"https://example.org/{n}") for n in range(20)]
    rows.append((20, "secret_attribute = 'Gertrude' AND age > 3", "https://example.org/hidden"))
    frame = spark.createDataFrame(rows, "id bigint, condition string, url string")
    Snapshot.publish(frame, tmp_path / "b", payload=["url"])

    def secrets() -> list[bytes]:
        content = b"".join(file.read_bytes() for file in (tmp_path / "b").rglob("*") if file.is_file())
        return [one for one in (b"Gertrude", b"secret_attribute", b"example.org/hidden") if one in content]

    assert b"Gertrude" in secrets()
    with earmark.open(tmp_path / "b") as m:
        m.erase(20)
        assert secrets() == []
        assert m.ids() == list(range(20))
    assert secrets() == []
    assert care.check(tmp_path / "b") == []
