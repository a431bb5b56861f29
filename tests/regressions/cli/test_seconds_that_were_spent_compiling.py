"""`earmark simulate` compared policies by seconds of which the first one had spent most on compiling kernels."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from earmark.cli.app import main
from earmark.jit import note
from earmark.overlay import simulation

SMALL = ("simulate", "--topology", "line:2", "--subscriptions", "5", "--publications", "3", "--policies")


def test_the_policy_that_waited_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    run = simulation.simulate

    def compiling(plan: Any, policy: str, **options: Any) -> Any:
        monkeypatch.setattr(note, "compiled", note.compiled + (policy == "flood"))
        return run(plan, policy, **options)

    CliRunner().invoke(main, [*SMALL, "flood,covering"])  # whatever has to be compiled
    monkeypatch.setattr(simulation, "simulate", compiling)
    done = CliRunner().invoke(main, [*SMALL, "flood,covering"])
    assert done.exit_code == 0, done.output
    assert "the seconds of flood include compiling kernels" in done.stderr
    assert "include compiling" not in CliRunner().invoke(main, [*SMALL, "covering"]).stderr
