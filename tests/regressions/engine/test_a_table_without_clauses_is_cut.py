"""A part or shard of nothing but subscriptions that never match lost them: the version could not be opened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from earmark import Matcher
from earmark.book.publishing import publishing
from earmark.book.saving import Shelf, write_version
from earmark.book.segments import write_whole
from earmark.book.sharding import sharded
from earmark.engine import cutting


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
    sources = []
    for name, one, first in (("one", matcher, 0), ("two", never, 5)):
        segment = one._version.whole
        write_whole(tmp_path / name, segment)
        sources.append((tmp_path / name, None, segment, np.arange(first, first + len(segment))))
    with publishing(tmp_path / "book") as site:
        version = sharded(site, sources, matcher._version.schema, 3, "scan", 6, True)
        site.commit(write_version(site, version, "scan", Shelf()))
    assert version.live == 6 and version.router is not None
    assert Matcher.load(tmp_path / "book").ids() == [0, 1, 2, 3, 4, 9]
