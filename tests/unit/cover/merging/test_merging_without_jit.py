"""Without the JIT subsumption, merging and the linear baselines work the same, and no number overflows on the way."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import numpy as np
from earmark import Matcher
from earmark.events.frames import encode_many
from earmark.cover import Verdict, merge, subsumed, summarize
from earmark.cover.canonical import canonical
from earmark.report.rivals.linear_boxes import LinearBoxes
from earmark.cover.ranges.subsumption import Subsumption
from earmark.curves.space import boxes_of_clauses

rng = np.random.default_rng(2)
m = Matcher(index="scan")
for i, (x, y) in enumerate(rng.integers(0, 40, (24, 2)).tolist()):
    m.add(i, f"x BETWEEN {x} AND {x + 6} AND (y BETWEEN {y} AND {y + 6} OR y IS NULL)")
m.add(98, f"x >= {-(2**63)} AND x <= 3")
m.add(99, f"x BETWEEN {2**63 - 9} AND {2**63 - 1}")
events = [{"x": x, "y": y} for x, y in rng.integers(0, 50, (120, 2)).tolist()] + [{"x": 2**63 - 1}, {"x": -(2**63)}]
for made in (merge(m, events, 0.0), merge(m, events, 1e9), merge(m, events, 1e9, pieces=1)):
    smaller = Matcher(index="scan", attributes={"x": "integer", "y": "integer"})
    smaller.add_many(made.to_arrow())
    group = {one: row["id"] for row in made.to_arrow().to_pylist() for one in row["stands_for"]}
    for event in events:
        assert {group[one] for one in m.match(event)} <= set(smaller.match(event))
table = canonical(m._version.whole)
broker = Subsumption.build(table, gap=3)
rows = LinearBoxes(broker.space.axes)
low, high = boxes_of_clauses(broker.space, table, np.arange(26))
rows.add(low[:20], high[:20])
alone = Subsumption.build(table, np.arange(20, dtype=np.int32), broker.space)
for slot in range(26):
    inside = alone.verdict(slot, table).verdict is Verdict.SUBSUMED
    assert not rows.covered(low[slot : slot + 1], high[slot : slot + 1])[0] or inside
rows.mergeable(low, high)
for slot in range(0, 26, 3):
    broker.unsubscribe(slot)
broker.check()
assert {subsumed(m, i).verdict for i in m.ids()} <= set(Verdict)
made = summarize(m, events, 1.0, cell_bits=4)
held = made.holds(encode_many(m._version.whole.schema, events))
assert all(held[i] or not m.match(event) for i, event in enumerate(events))
"""


def test_the_same_answers() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
