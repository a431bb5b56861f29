"""The engines, by name. Every index of earmark is one without being named here.

A rival is a class in a file of its own, and a line in RIVALS. An engine from elsewhere is named `module:Class`.
"""

from __future__ import annotations

from importlib import import_module

from earmark import index
from earmark.errors import EarmarkError
from engines.base import Engine

RIVALS = {
    "numpy": "engines.numpy_scan:NumpyScan",
    "sqlite": "engines.sqlite_rtree:SqliteRTree",
    "rtree": "engines.libspatialindex:Libspatialindex",
    "duckdb": "engines.duckdb_join:DuckdbJoin",
    "polars": "engines.polars_join:PolarsJoin",
}
BASELINE = "numpy"
"""Whose answers are the reference, and against whom ratios are taken unless another is named."""


def names() -> list[str]:
    """The indexes of earmark, then the rivals."""
    return [*index.names(), *RIVALS]


def make(name: str, threads: int = 1) -> Engine:
    """The engine with this name, with no subscriptions yet."""
    place = "engines.earmark_index:EarmarkIndex" if name in index.names() else RIVALS.get(name, name)
    module, _, class_name = place.partition(":")
    if not class_name:
        raise EarmarkError(f"there is no engine called {name!r}; there are {', '.join(names())}, or module:Class.")
    try:
        engine: Engine = getattr(import_module(module), class_name)(name, threads)
    except (ImportError, AttributeError) as problem:
        raise EarmarkError(f"the engine {name!r} cannot be had: {problem}.") from None
    return engine
