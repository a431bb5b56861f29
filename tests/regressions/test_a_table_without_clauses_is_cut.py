"""A part or shard of nothing but subscriptions that never match lost them: the version could not be opened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from earmark import Matcher
from earmark.segment.files import save_stored
from earmark.segment.stored import stored_of
from earmark.spark import cutting
from earmark.spark.shards import Table, write_sharded
from earmark.spark.versions import FULL


@pytest.mark.parametrize("conditions", [["FALSE"], ["FALSE", "a < 1 AND a > 2"], ["FALSE", "a > 1", "a < 5 OR b = 2"]])
def test_every_slot_has_a_shard(conditions: list[str]) -> None:
    matcher = Matcher("scan")
    matcher.add_many(list(enumerate(conditions)))
    table = matcher._version.whole.arrays
    own = cutting.first_clauses(table)
    assert len(own.clause_start) - 1 == len(conditions)
    assert len(cutting.shards_of(table, cutting.learned(table, 3))) == len(conditions)


def test_none_is_lost_by_shards(tmp_path: Path) -> None:
    matcher, never = Matcher("scan"), Matcher("scan")
    matcher.add_many([(i, f"a > {i}") for i in range(5)])
    never.add(9, "FALSE")
    tables = []
    for name, one, first in (("one", matcher, 0), ("two", never, 5)):
        stored = stored_of(one._version.whole, len(one))
        save_stored(stored, tmp_path / name)
        tables.append(Table(tmp_path / name, stored, np.arange(first, first + stored.slots)))
    (tmp_path / "version").mkdir()
    told = write_sharded(tmp_path / "version", tables, matcher._version.schema, 3, "scan", 6, True, None)
    assert told["subscriptions"] == 6 and told["kind"] == FULL
