"""One structure of one paper a file, under one contract (`contract.py`), found by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from earmark.errors import EarmarkError
from earmark.index.contract import MatchIndex

INDEXES = {"scan": ("earmark.index.scan", "Scan")}
"""Name of an index -> its module and class. A module is imported when its index is first asked for."""


def names() -> list[str]:
    """The indexes there are, by name."""
    return sorted(INDEXES)


def builder(name: str) -> Callable[..., MatchIndex]:
    """The `build(table, **options)` of the index with this name."""
    if not isinstance(name, str) or name not in INDEXES:
        raise EarmarkError(f"there is no index called {name!r}; there are {', '.join(names())}.")
    module, class_name = INDEXES[name]
    build: Callable[..., MatchIndex] = getattr(import_module(module), class_name).build
    return build
