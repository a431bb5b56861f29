"""Without the JIT the covering indexes give the same answers, and no number overflows on the way."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import numpy as np
from tests.unit.cover.worlds import schema, world
from earmark.cover import INDEXES, builder
from earmark.cover.exact import decide
from earmark.cover.relation_graph import RelationGraph

made = world(5, 80)
table, everyone = made.table(), set(range(80))
for name in sorted(INDEXES):
    index = builder(name)(table)
    index.check()
    for slot in range(0, 80, 5):
        assert set(index.covering(slot).tolist()) == made.covering(slot, everyone), (name, slot)
    index.remove(np.arange(0, 80, 2, dtype=np.int32))
    index.check()
    graph = RelationGraph(builder(name)(table, np.empty(0, np.int32)), 2, withdraw=True)
    for slot in range(40):
        graph.subscribe(slot, table)
    for slot in range(0, 40, 3):
        graph.unsubscribe(slot)
    graph.check()
index, members = builder("mics")(table), np.arange(80)
domain = schema().domains
for slot in range(0, 80, 3):
    wanted = decide(table, slot, members, domain)
    assert slot in index.meeting(slot) or not made.bits[slot]
    if made.bits[slot]:
        assert decide(table, slot, index.meeting(slot).astype(np.int64), domain) == wanted
    assert (wanted.verdict == "covered") == any(made.contains(other, slot) for other in range(80) if other != slot)
    assert index.covered(slot).tolist() == [other for other in range(80) if made.covers(slot, other)]
"""


def test_the_same_answers() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
