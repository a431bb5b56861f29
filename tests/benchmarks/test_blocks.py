"""The program about the blocks index, on tiny data: it runs, compares answers, judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.benchmarks.tiny import dense, sparse

import blocks
import contenders
from contenders import Contender
from earmark.index.scan import Scan
from results import Figure, read


class Late(Scan):
    """Ranks one answer too few."""

    def top_k_many(self, events: Any, k: int, eligible: Any, relaxed: bool = False) -> Any:
        return super().top_k_many(events, k - 1, eligible, relaxed)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard workloads are tiny here, and few events come alone."""
    made = {"w1u": sparse(), "w2": dense()}
    heads = {name: lambda subscriptions, one=one: one.head(subscriptions) for name, one in made.items()}
    monkeypatch.setattr(blocks, "WORKLOADS", heads)
    monkeypatch.setattr(blocks, "ONE_BY_ONE", 3)
    monkeypatch.setattr(contenders, "MOST_CALLS", 2)


def test_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    assert blocks.main(["--quick", "--sizes", "300", "--workloads", "w1u,w2", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    for part in (
        "w1u, 300 subscriptions",
        "blocks, 10 best, in a batch",
        "w2, all, one by one, against scan: ",
        "w2, all, in a batch: ",
        "w1u, bytes: ",
        "not judged at this size",
    ):
        assert part in out, part
    figures = read(file).figures
    assert {one.status for one in figures} == {"ok"}
    assert {"build", "bytes", blocks.ALL, blocks.BEST, blocks.SINGLE} == {one.what for one in figures}


def test_a_wrong_answer_fails_the_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    own = contenders.index.class_of
    monkeypatch.setitem(contenders.index.INDEXES, "late", (__name__, "Late"))
    monkeypatch.setattr(contenders.index, "class_of", lambda name: Late if name == "late" else own(name))
    monkeypatch.setattr(blocks, "INDEXES", (blocks.BLOCKS, Contender(contenders.BULK.label, "late"), contenders.SCAN))
    assert blocks.main(["--quick", "--sizes", "300", "--workloads", "w2"]) == 1
    assert "WRONG: BE*-B on w2 at 300: " in capsys.readouterr().out


def test_a_missed_bar_is_told() -> None:
    def figure(engine: str, what: str, value: float) -> Figure:
        return Figure("w2", 1000, engine, what, "µs/event", [value], events=10)

    ways = (blocks.ALL, blocks.BEST, blocks.SINGLE)
    found = [figure(one.label, what, 50.0) for one in blocks.INDEXES for what in ways]
    found += [figure("blocks", "build", 11.0), figure("blocks", "bytes", 1.0)]
    assert blocks.judge(found, 1000, judged=True).missed == ["w2, 10 best, in a batch", "w2, build"]
