"""`earmark publish --shards`: the same rows as from one table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Result
from .test_commands import VISITORS, matcher
from .test_spark import folder, here, rounded  # noqa: F401  # fixtures

pytestmark = pytest.mark.spark


def test_shards(here: Callable[..., Result], folder: Path) -> None:  # noqa: F811
    told = here("publish", "ads.csv", "sharded", "--shards", "2")
    assert (told.code, told.out) == (0, "sharded: version 1, 3 subscriptions\n"), told
    record = json.loads((folder / "sharded" / "versions" / "00000001" / "version.json").read_text())
    assert record["router"] is not None and len(record["segments"]) > 1
    found = here("match", "sharded", "visitors.parquet", "--engine", "spark", "--json")
    assert rounded(found.rows()) == rounded(matcher().match_many(VISITORS).to_pylist())
    assert (
        "expected a number of shards from 1 to 9,999" in here("publish", "ads.csv", "sharded", "--shards", "0").sentence
    )
    wrong = here("publish", "ads.csv", "sharded", "--changes", "--shards", "3").sentence
    assert "leave those options out" in wrong
