"""Audit, backtest and merging on a Spark Connect session, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.connect import run_on_connect

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.apart]

SCRIPT = """
from earmark.spark import audit, backtest, merge

frame, past = book_frame(spark, rows), event_frame(spark, given)
types = {"attributes": generate.SCHEMA}

found, wanted = audit(frame, homes=3, **types), matcher.audit()
covered = [row["subscription"] for row in found.collect() if row["finding"] == "covered"]
assert sorted(covered) == sorted(one.id for one in wanted.covered)
assert found.count() == wanted.to_arrow().num_rows

counts = {row["subscription"]: row["matches"] for row in backtest(frame, past, columns=["row"], **types).collect()}
matched = matcher.match_many(given)["subscription"].to_pylist()
assert counts == {row["id"]: matched.count(row["id"]) for row in rows}

made = merge(frame, 0.1, past, homes=2, **types)
assert sum(len(row["stands_for"]) for row in made.conditions.collect()) == len(rows) - len(wanted.never)
"""


def test_the_same_findings(tmp_path: Path) -> None:
    run_on_connect(SCRIPT, tmp_path)
