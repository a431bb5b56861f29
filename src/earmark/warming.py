"""Compile kernels before they are needed: `earmark.warm()`, `earmark warm`.

Every kernel is compiled when it is first called, and kept for this user and machine (`jit.py`). Here a small matcher is
used in every way that has kernels of its own, so that later calls, in this process and in others, find them compiled.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from earmark.errors import EarmarkError, shown
from earmark.events.mappings import Interval
from earmark.index import names
from earmark.index.auto import KINDS
from earmark.jit import JIT, note
from earmark.language.words import counted
from earmark.matcher import DEFAULT_INDEX, Matcher
from earmark.progress import is_shown

MANY = 300
"""Subscriptions: enough that every index has more than one node, and that it takes changes in."""
EVENTS: list[dict[str, Any]] = [{"a": 5, "b": 9, "s": "x", "f": 1.5}, {"a": Interval(3, 8), "s": "zz"}]
BATCH = EVENTS * 16
"""Enough events that an index asks them in an order of its own."""

Use = tuple[str, Callable[[], object]]
"""A name, and a call that compiles."""


def warm(indexes: Iterable[str] | None = None, *, progress: bool | None = None) -> None:
    """Compile the kernels of these indexes (by default of all that `Matcher()` chooses from) into the user's cache.

    Everything a matcher does is covered: match and top_k, for one event and for many, changes, explain, audit, files;
    but for scores other than the sum (`combine=`). Takes up to a minute per index the first time, and a few seconds
    when all is compiled. `progress` shows a bar; None means on a terminal.
    """
    if isinstance(indexes, str) or not isinstance(indexes, Iterable | None):
        raise EarmarkError(f"expected indexes to be names in a list, got {shown(indexes)}")
    chosen = [DEFAULT_INDEX] if indexes is None else list(indexes)
    for name in chosen:
        if name not in names():
            raise EarmarkError(f"there is no index called {name!r}; there are {', '.join(names())}")
    if JIT:
        chosen = [one for name in chosen for one in (KINDS if name == "auto" else [name])]
        uses = [use for name in dict.fromkeys(chosen) for use in _uses(name)]
        _compile([*uses, *_comparisons()], is_shown() if progress is None else progress)


def warm_index(name: str) -> None:
    """Compile all that depends on the index."""
    _compile(list(_uses(name)), False)


def warm_search(name: str) -> None:
    """Compile what loading, searching and explaining with an index needs, and nothing else."""
    _compile(list(_searches(cache(lambda: Matcher(name)))), False)


def warm_audit() -> None:
    """Compile what comparing subscriptions needs, whatever the index."""
    _compile(list(_comparisons()), False)


def _compile(uses: list[Use], is_bar_shown: bool) -> None:
    with note.replaced_by(None):
        if not is_bar_shown:
            for _, use in uses:
                use()
            return
        import click

        bar: Any = click.progressbar(
            length=len(uses), label="compiling kernels", file=sys.stderr, width=30, item_show_func=str, show_eta=False
        )
        before = note.compiled
        with bar:
            for name, use in uses:

                def show(compiled: int, name: str = name) -> None:
                    bar.current_item = f"{name}, {counted(compiled - before, 'kernel')} so far"
                    bar.render_progress()

                show(note.compiled)
                with note.replaced_by(show):
                    use()
                bar.update(1)


# --- what has kernels of its own -------------------------------------------------------------------------------------


def _uses(name: str) -> Iterator[Use]:
    m = cache(lambda: Matcher(name))  # when it is first needed: an empty index has kernels, too
    yield from _searches(m)
    yield "verify", lambda: m().verify(EVENTS)
    yield "add", lambda: _add_one(m())
    yield "changes", lambda: _change(m())
    yield "save and load", lambda: _save_and_load(m())
    yield "adapt", lambda: _adapt(m())


def _searches(m: Callable[[], Matcher]) -> Iterator[Use]:
    first = EVENTS[0]
    yield "add_many", lambda: m().add_many([_row(i) for i in range(MANY)])
    yield "match_many", lambda: m().match_many(BATCH)
    yield "top_k", lambda: (m().top_k(first, 3), m().top_k(first, 3, mode="relaxed", weights={"a": 2.0}))
    yield "top_k_many", lambda: (m().top_k_many(BATCH, 3), m().top_k_many(BATCH, 3, mode="relaxed"))
    yield "match", lambda: m().match(first)  # by which `auto` knows that an index is ready: the others before it
    yield "explain", lambda: (m().explain(1, first), m().near_misses(first))


def _comparisons() -> Iterator[Use]:
    m = Matcher("scan")
    yield "audit", lambda: (m.add_many([_row(i) for i in range(50)]), m.audit())
    yield "covers", lambda: (m.covered_by(1), m.covered(1))


def _row(i: int) -> dict[str, Any]:
    texts = [f"a BETWEEN {i} AND {i + 5} AND b > {i % 7}", f"a > {i} AND s LIKE 'x%'", f"f <= {i}.5D OR a IN (1, {i})"]
    return {"id": i, "condition": texts[i % 3], "weights": {"a": 0.5 + i}, "score": float(i % 4), "tags": {"t": "x"}}


def _add_one(m: Matcher) -> None:
    m.add(MANY, "a > 3 OR b < 2")
    m.update(MANY, score=2.0)
    m.match_many(EVENTS)
    m.match(EVENTS[0])
    m.top_k(EVENTS[0], 3)


def _change(m: Matcher) -> None:
    """Change enough that the index takes it in."""
    for _ in range(2):
        m.add_many([_row(1000 + i) for i in range(140)] if 1000 not in m else [])
        m.remove_many([i for i in range(140) if i in m])
        m.match_many(EVENTS, scope={"t": "x"})
        m.top_k_many(EVENTS, 3)
    m._compactor.wait()
    m.check()


def _adapt(m: Matcher) -> None:
    if any(one.index is not None and one.index.is_adaptive for one in m._version.segments):
        m.adapt(EVENTS)
        m.match_many(EVENTS)


def _save_and_load(m: Matcher) -> None:
    with tempfile.TemporaryDirectory() as folder:
        m.save(Path(folder) / "warm.earmark")
        loaded = Matcher.load(Path(folder) / "warm.earmark")
        loaded.match_many(EVENTS)
        loaded.top_k_many(EVENTS, 3)
