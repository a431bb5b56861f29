"""Indexes by name: one folder for each paper, one contract (`contract.py`), one way to search (`driver.py`)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from earmark.errors import EarmarkError
from earmark.index.driver import ArrayIndex
from earmark.segment.arrays import SegmentArrays

INDEXES = {
    "auto": ("earmark.index.auto", "Auto"),
    "be_star_tree": ("earmark.index.be_star_tree", "BEStarTree"),
    "be_tree": ("earmark.index.be_star_tree.be_tree", "BETree"),
    "bitsets": ("earmark.index.bitsets", "BitsetIndex"),
    "blocks": ("earmark.index.blocks", "BlockIndex"),
    "cell_table": ("earmark.index.ranked.cell_table", "CellTable"),
    "interval_tree": ("earmark.index.ranked.trees", "IntervalTree"),
    "ir_tree": ("earmark.index.ranked.ir_tree", "IRTree"),
    "k_index": ("earmark.index.k_index", "KIndex"),
    "mics": ("earmark.index.mics", "MicsIndex"),
    "r_tree": ("earmark.index.ranked.trees", "RTree"),
    "scan": ("earmark.index.scan", "Scan"),
    "segment_tree": ("earmark.index.ranked.trees", "SegmentTree"),
    "sopt_r_tree": ("earmark.index.ranked.sopt_r_tree", "SoptRTree"),
    "vcr": ("earmark.index.vcr", "VcrIndex"),
}
"""Name of an index -> its module and class. A module is imported when its index is first asked for."""


def names() -> list[str]:
    """The indexes there are, by name."""
    return sorted(INDEXES)


def builder(name: str, options: Mapping[str, Any] | None = None) -> Callable[..., ArrayIndex[Any]]:
    """The `build(table, **options)` of the index with this name, with these options given already."""
    if not isinstance(name, str) or name not in INDEXES:
        raise EarmarkError(f"there is no index called {name!r}; there are {', '.join(names())}")
    build: Callable[..., ArrayIndex[Any]] = class_of(name).build
    if not options:
        return build
    known = list(inspect.signature(build).parameters)[1:]
    for option in options:
        if option not in known:
            raise EarmarkError(f"the index {name!r} has no option {option!r}; it has {', '.join(known) or 'none'}")
    return functools.partial(build, **options)


def restore(name: str, table: SegmentArrays, arrays: Mapping[str, NDArray[Any]]) -> ArrayIndex[Any]:
    """The index with this name from its stored arrays; AssertionError where they are not what kernels rely on."""
    builder(name)
    restored: ArrayIndex[Any] = class_of(name).restore(table, arrays)
    return restored


def stored(index: ArrayIndex[Any]) -> dict[str, NDArray[Any]]:
    """The arrays to store, by name; `restore` takes them back."""
    return dict(index.arrays._asdict()) if index.arrays else {}


def name_of(index: ArrayIndex[Any]) -> str:
    """The name of an index that was built."""
    kind = type(index)
    return next(name for name, place in INDEXES.items() if place == (kind.__module__, kind.__name__))


def class_of(name: str) -> Any:
    """The class of the index with this name."""
    module, class_name = INDEXES[name]
    return getattr(import_module(module), class_name)
