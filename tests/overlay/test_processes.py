"""Real broker processes: see benchmarks/broker_processes.py, which also prints figures."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker_processes import Round, trial


def check(rounds: list[Round], cuts: int = 4) -> None:
    quiet, cut, kill = rounds
    for one in rounds:
        assert one.is_right and one.expected > 0, one
    assert quiet.arrived == quiet.expected and cut.arrived == cut.expected and cut.cuts == cuts
    assert kill.arrived + kill.missing == kill.expected


def test_three_brokers_a_cut_link_and_a_killed_broker(tmp_path: Path) -> None:
    rounds, _ = asyncio.run(trial("line:3", 300, 600, tmp_path))
    check(rounds)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_eleven_brokers_ten_thousand_subscriptions_and_publications(tmp_path: Path) -> None:
    rounds, _ = asyncio.run(trial("figure-1", 10_000, 10_000, tmp_path))
    check(rounds)
