"""An interruption at any line of a change of a durable book: it has happened, in memory and in the journal, or in
neither; and the next change is neither lost nor refused.

The lines are those on the way from a call to the journal; those that make the next version are in
test_interrupted_writes.py. `make test` takes some of the lines, `make soak` all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark import Book
from earmark.book import care
from faults.injection import OURS, Injection

FILES = ("commits", "forgetting", "history", "journal", "marks", "replay", "rows", "touched")
WITHIN = (f"{OURS}/durable.py", f"{OURS}/lookback.py", *(f"{OURS}/book/{name}.py" for name in FILES))
PROBLEMS = (KeyboardInterrupt, MemoryError)


def transaction(m: Book, number: int) -> None:
    with m.change(message="two") as c:
        c.add(f"t{number}", f"age = {number}")
        c.upsert("kept", "age > 3", score=number)


CHANGES: dict[str, Callable[[Book, int], Any]] = {
    "add": lambda m, number: m.add(f"n{number}", f"age > {number} AND city = 'c{number}'"),
    "transaction": transaction,
    "update": lambda m, number: m.update(f"gone{number}", score=3.0, if_change=m.last_change),
    "undo": lambda m, number: m.undo(m.last_change),
    "erase": lambda m, number: m.erase(f"gone{number}"),
    "retain": lambda m, number: m.retain(before=m.last_change),
}


def picture(m: Book) -> Any:
    """What a book has."""
    return m.last_change, [m[id] for id in m.ids()]


def on_disk(m: Book) -> Any:
    """What another process would find."""
    reader = earmark.open(m.path, readonly=True, follow=False)
    try:
        return picture(reader)
    finally:
        reader.close()


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize(
    "step", [pytest.param(9, id="few"), pytest.param(1, id="all", marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_every_line(tmp_path: Path, kind: str, step: int) -> None:
    change, whole = CHANGES[kind], Injection(within=WITHIN)
    m = earmark.open(tmp_path / "b", index="scan", durability="normal")
    m.add("kept", "age > 3")
    m.add("gone", "age > 4")
    m.add("gone-1", "age > 4")
    assert not whole(lambda: change(m, -1))
    for at in range(0, len(whole.lines), step):
        m.add(f"gone{at}", f"age > 5 AND city = 'gone{at}'")
        before = picture(m)
        injection = Injection(at, PROBLEMS[at // step % 2], WITHIN)
        injection(lambda at=at: change(m, at))
        now, where = picture(m), (kind, injection.problem.__name__, injection.where)
        assert on_disk(m) == now, where
        assert now == before or now[0] == before[0] + 1, where
        m.add(f"after{at}", "TRUE")
        assert picture(m) == (now[0] + 1, [*now[1], m[f"after{at}"]]) == on_disk(m), where
        if injection.where is None:  # fewer lines run by now
            break
    m.close()
    assert care.check(tmp_path / "b") == []
