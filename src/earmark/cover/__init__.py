"""Who covers whom: which subscriptions others imply, and what a broker needs to forward.

canonical.py        one form for each condition
containment.py      the exact tests, and the strict order
contract.py         what an index answers; by name, below
  linear.py           the naive scan: oracle and baseline
  kd_tree.py          the paper's kd-tree            vector.py, scale.py, buckets.py: what they are made of
  z_curve.py          the paper's space-filling curve
  blocks.py           kd-ordered blocks by attribute set: for batches
  mics.py             Subscription Indexing of MICS: who covers, who is covered, who meets
relation_graph.py   G_k, G* and the strict poset: what to forward
audit.py            rule hygiene for users
ranges.py           a dynamic table of disjoint curve ranges, with counts        ordered.py: the B+tree under it
subsumption.py      what to forward of a subscription, from cells (Algorithm 1 of MICS)
exact.py            whether several take all that one takes, from the boxes      subtract.py, witness.py
merging.py          fewer conditions under a budget of extra traffic             unite.py, traffic.py, conditions.py
summary.py          the same as ranges of cells                                  range_summary.py: read back and asked
linear_boxes.py     covering, subsumption and merging by looking at every box: the baseline
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from earmark.errors import EarmarkError

INDEXES = {
    "linear": ("earmark.cover.linear", "Linear"),
    "kd_tree": ("earmark.cover.kd_tree", "KdTree"),
    "z_curve": ("earmark.cover.z_curve", "ZCurve"),
    "blocks": ("earmark.cover.blocks", "Blocks"),
    "mics": ("earmark.cover.mics", "Mics"),
}
"""Name of a covering index -> its module and class. A module is imported when its index is first asked for."""


FUNCTIONS = {
    "merged": "earmark.cover.merging",
    "summarized": "earmark.cover.summary",
    "RangeSummary": "earmark.cover.range_summary",
    "subsumed": "earmark.cover.exact",
    "Verdict": "earmark.cover.exact",
}
"""What `from earmark.cover import …` has for users -> its module, imported when it is first asked for."""


def __getattr__(name: str) -> Any:
    if name not in FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(FUNCTIONS[name]), name)


def builder(name: str) -> Callable[..., Any]:
    """The `build(table, slots=None, **options)` of the covering index with this name."""
    if not isinstance(name, str) or name not in INDEXES:
        raise EarmarkError(f"there is no covering index called {name!r}; there are {', '.join(sorted(INDEXES))}.")
    module, class_name = INDEXES[name]
    build: Callable[..., Any] = getattr(import_module(module), class_name).build
    return build
