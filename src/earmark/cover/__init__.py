"""Which subscriptions cover which, and what a broker needs to forward.

audit.py            rule hygiene for users
cover_index.py      which cover which, by id: `CoverIndex`, and several together: `subsumed`
relation_graph.py   G_k, G* and the strict poset: what to forward
canonical.py        one form for each condition, the exact tests of containment, and the strict order
exact.py            whether several take all that one takes, from the boxes
written.py          keys as conditions and as values of an event
homes.py            partitions within which covering can be decided, for Spark
indexes/            which cover which, by slot: auto, linear, kd_tree, z_curve, blocks, layers, mics
ranges/             a table of disjoint curve ranges (MICS): subsumption, projection, summaries for neighbours
merging/            fewer conditions under a budget of extra traffic

`from earmark.cover import …` has everything that users need; the rest works on arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from earmark.errors import EarmarkError

INDEXES = {
    "auto": ("mics", "Auto"),
    "linear": ("members", "Linear"),
    "kd_tree": ("kd_tree", "KdTree"),
    "z_curve": ("z_curve", "ZCurve"),
    "blocks": ("blocks", "CoverBlocks"),
    "layers": ("layers", "Layers"),
    "mics": ("mics", "Mics"),
}
"""Name of a covering index -> its module in indexes/, and its class. A module is imported when it is first needed."""

_NAMES = {
    "audit": "Audit Covered NeverClause",
    "cover_index": "CoverIndex subsumed",
    "exact": "Decision Verdict",
    "indexes.members": "Cost",
    "merging.merge": "merge Merged",
    "merging.traffic": "Traffic",
    "ranges.projection": "Measured Projection",
    "ranges.subsets": "SubsetProjections",
    "ranges.subsumption": "RangeChange Subsumption",
    "ranges.summary": "RangeSummary Summary summarize",
    "ranges.table": "Ranges RangeSet RangeTable",
    "relation_graph": "Calls Change CompleteGraph RelationGraph StrictPoset",
}
"""Module -> the names that users import from here. A module is imported when one of its names is first used."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


def builder(name: str) -> Callable[..., Any]:
    """The `build(table, slots=None, **options)` of the covering index with this name."""
    if not isinstance(name, str) or name not in INDEXES:
        raise EarmarkError(f"expected the name of a covering index ({', '.join(sorted(INDEXES))}), got {name!r}")
    module, class_name = INDEXES[name]
    build: Callable[..., Any] = getattr(import_module(f"{__name__}.indexes.{module}"), class_name).build
    return build
