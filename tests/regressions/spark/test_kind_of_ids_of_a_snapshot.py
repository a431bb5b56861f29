"""Once all subscriptions were removed, changes with ids of the other kind raised an error of Arrow's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from earmark import SubscriptionError
from earmark.spark import Snapshot, match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("shards", "kinds"), [(1, ("long", "string")), (3, ("long", "string")), (1, ("string", "long"))]
)
def test_the_other_kind(spark: SparkSession, tmp_path: Path, shards: int, kinds: tuple[str, str]) -> None:
    first, second = (f"id {kind}, condition string, op string" for kind in kinds)
    old, new = ((1, 2), ("t", "u")) if kinds[0] == "long" else (("t", "u"), (1, 2))
    book = spark.createDataFrame([(old[0], "a > 0", "add"), (old[1], "a > 1 AND s = 'k'", "add")], first).coalesce(1)
    snapshot = Snapshot.publish(book.drop("op"), tmp_path / "s", shards=shards)
    added = spark.createDataFrame([(new[0], "a > 1", "add"), (new[1], "s = 'l'", "upsert")], second).coalesce(1)
    with pytest.raises(SubscriptionError, match="as the ids of changes, as in this snapshot"):
        snapshot.apply(added)
    snapshot = snapshot.apply(spark.createDataFrame([(one, None, "remove") for one in old], first).coalesce(1))
    assert len(snapshot) == 0
    snapshot = snapshot.apply(added)
    events = spark.createDataFrame([(0, 1, "k"), (1, 5, "l")], "row int, a int, s string").coalesce(1)
    wanted = [(1, new[0]), (1, new[1])]
    assert [(row[0], row[1]) for row in match(events, snapshot, columns=["row"]).collect()] == wanted
    assert snapshot.shards == shards
    snapshot = snapshot.apply(spark.createDataFrame([(new[0], "a > 9", "update")], second))
    assert [row[1] for row in match(events, Snapshot.open(snapshot.path), columns=["row"]).collect()] == [new[1]]
