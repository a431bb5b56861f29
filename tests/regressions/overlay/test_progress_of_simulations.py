"""`earmark simulate` never showed progress: a phase has at most 200 items, and the clock was looked at every 256."""

from __future__ import annotations

import io

import pytest

from earmark import progress
from earmark.overlay.simulation import content_of, plan_of, simulate, topology_of
from earmark.overlay.simulation.plan import INSTANTS


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0

    def time(self) -> float:
        self.looks += 1
        return self.now


def shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """What is shown; not as a fixture, since pytest replaces stderr after those."""
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    monkeypatch.delenv("EARMARK_QUIET", raising=False)
    return terminal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_a_bar_appears_after_a_second(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    terminal = shown_on_a_terminal(monkeypatch)
    for place in progress.track(range(INSTANTS), INSTANTS, "flood: publish"):
        clock.now += 0.0625
        assert bool(terminal.getvalue()) == (place > 16), place
    assert "flood: publish" in terminal.getvalue() and f"/{INSTANTS}" in terminal.getvalue()


def test_items_that_become_slow_are_seen(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    terminal = shown_on_a_terminal(monkeypatch)
    for place in progress.track(range(2_000), 2_000, "slower"):
        clock.now += 0.0001 if place < 1_000 else 0.1
        if place > 1_000 + 257:
            assert terminal.getvalue()


def test_quick_items_seldom_look_at_the_clock(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    terminal = shown_on_a_terminal(monkeypatch)
    for _ in progress.track(range(100_000), 100_000, "quick"):
        clock.now += 0.000_001
    assert clock.looks < 500 and not terminal.getvalue()


def test_a_simulation_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown_on_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    monkeypatch.setattr(progress, "_OFTEN", 0.0)
    simulate(plan_of(content_of("mics-zipf", 30, 20), topology_of("figure-1")), "flood")
    assert "flood: subscribe" in terminal.getvalue() and "flood: publish" in terminal.getvalue()
