"""Work was queued although its thread could not be started; it ran later, took an item, and its result was missing."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from earmark import threads
from earmark.threads import in_parallel


def test_late_help_is_waited_for_or_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []

    class Pool:
        def submit(self, work: Any) -> None:
            started.append(threading.Thread(target=work))
            started[-1].start()
            raise RuntimeError("can't start new thread")

    def slow(item: int) -> int:
        time.sleep(0.002)
        return item

    monkeypatch.setattr(threads, "_started", Pool)
    for _ in range(30):
        assert in_parallel(slow, range(5), 2) == [0, 1, 2, 3, 4]
    for thread in started:
        thread.join(10)
