"""An `update` with `if_change` waited for every `as_of` and `diff` to end, and all other writers waited for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark.book import history, opening


@contextmanager
def slow(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, look: Callable[[], Any]) -> Iterator[None]:
    """Inside, another thread is looking back, and is not done."""
    real, begun, end = getattr(module, name), threading.Event(), threading.Event()

    def waiting(*given: Any) -> Any:
        begun.set()
        end.wait(60)
        return real(*given)

    monkeypatch.setattr(module, name, waiting)
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    assert begun.wait(60)
    try:
        yield
    finally:
        end.set()
        thread.join(60)


def in_time(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.parametrize(("module", "name"), [(opening, "as_of"), (history, "net")])
def test_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "age > 3")
        m.add("b", "age > 4")
        reader = earmark.open(tmp_path / "b", readonly=True, follow=False)
        for book in (m, reader):
            look = {"as_of": lambda book=book: book.as_of(1), "net": lambda book=book: book.diff(0, 1)}[name]
            with monkeypatch.context() as patch, slow(patch, module, name, look):
                in_time(lambda: m.update("a", score=1.0, if_change=m.history("a")[-1].number))
                in_time(lambda: m.add(f"n{len(m)}", "TRUE"))
                in_time(reader.refresh)
                in_time(lambda: reader.history("a"))
            assert reader.last_change == m.last_change
        reader.close()
