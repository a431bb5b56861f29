"""One checkpoint that failed in the background was the last one that was tried."""

from __future__ import annotations

import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark import EarmarkError
from earmark.book import checkpoints, saving


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times of attempts; they fail while `failing` is in the list."""
    tries: list[float] = []
    real = saving.save

    def save(*given: Any, **more: Any) -> Any:
        tries.append(time.monotonic())
        if len(tries) <= 3:
            raise OSError(28, "No space left on device")
        return real(*given, **more)

    monkeypatch.setattr(saving, "save", save)
    monkeypatch.setattr(checkpoints, "LEAST_ROWS", 10)
    return tries


def wait_for(condition: Any, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    assert condition()


def fill(m: earmark.Book) -> None:
    for i in range(20):
        m.add(i, f"x > {i}")


def fill_until_one_fails(m: earmark.Book) -> None:
    fill(m)
    wait_for(lambda: m.stats().get("checkpoint_problem"))


def test_it_is_tried_again_later_and_later(
    tmp_path: Path, failing: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "FIRST_DELAY", 0.1)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with earmark.open(tmp_path / "b", index="scan", durability="normal") as m:
            fill_until_one_fails(m)
            assert "No space left" in str(m.stats()["checkpoint_problem"])
            wait_for(lambda: m._checkpoints.change >= 11)  # without another change
            wait_for(lambda: m.stats()["checkpoint_problem"] is None)
            first, second, third, fourth = failing[:4]
            assert second - first >= 0.1 and third - second >= 0.2 and fourth - third >= 0.4
    assert [str(one.message)[:12] for one in seen if one.category is RuntimeWarning] == ["a checkpoint"]


def test_close_does_not_wait_for_the_next_attempt(
    tmp_path: Path, failing: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "FIRST_DELAY", 600.0)
    m = earmark.open(tmp_path / "b", index="scan", durability="normal")
    with pytest.warns(RuntimeWarning, match="a checkpoint of"):
        fill_until_one_fails(m)
    with pytest.raises(OSError, match="No space left"):
        m.checkpoint()
    begun = time.monotonic()
    with pytest.raises((EarmarkError, OSError), match="No space left"):
        m.close()
    assert time.monotonic() - begun < 10 and len(failing) == 3
    assert not any(one.name == "earmark-checkpoint" for one in threading.enumerate())
    with earmark.open(tmp_path / "b") as again:
        assert len(again) == 20


def test_one_that_was_asked_for_ends_the_waiting(
    tmp_path: Path, failing: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "FIRST_DELAY", 600.0)
    with earmark.open(tmp_path / "b", index="scan", durability="normal") as m:
        with pytest.warns(RuntimeWarning, match="a checkpoint of"):
            fill_until_one_fails(m)
        failing += [0.0, 0.0]
        assert m.checkpoint() == 20 and m.stats()["checkpoint_problem"] is None
        m.add_many([(100 + i, "TRUE") for i in range(20)])
        wait_for(lambda: m._checkpoints.change == 21)
        m.erase(3)
