"""The program about auto, on tiny data: it runs, compares answers, judges."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import auto
import contenders
from results import read


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few events, few indexes."""
    monkeypatch.setattr(auto, "SINGLES", 3)
    monkeypatch.setattr(auto, "NAMED", {"blocks": 1 << 30, "vcr": 2})
    monkeypatch.setattr(contenders, "MOST_CALLS", 1)


def test_auto(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    assert (
        auto.main(["--quick", "--workloads", "w2,vcr-90-10,intervals,ads,texts", "--sizes", "400", "--json", str(file)])
        == 0
    )
    out = capsys.readouterr().out
    for part in ("w2, 400: '", "in a batch: ", "one at a time: ", "not judged at this size", "0 missed"):
        assert part in out, part
    figures = read(file).figures
    assert {one.status for one in figures} == {"ok"}
    assert {one.engine for one in figures if one.workload == "vcr-90-10"} == {"auto", "blocks", "vcr"}
    assert {one.engine for one in figures if one.workload == "ads"} == {"auto", "blocks"}


def test_packet_rules(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "acl1_10k.gz", "wt") as lines:
        lines.write("@10.0.0.255/24\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0200\t\n" * 2)
    rules = auto.packets(tmp_path / "acl1_10k.gz")
    first = 10 << 24
    assert rules.sub_lo[0].tolist() == [first, 0, 0, 80, 6]
    assert rules.sub_hi[0].tolist() == [first + 255, (1 << 32) - 1, 65535, 80, 6]
    inside = (rules.sub_lo[0] <= rules.event_value) & (rules.event_value <= rules.sub_hi[0])
    assert inside.all()


def test_an_unknown_workload(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        auto.main(["--workloads", "w9"])
    assert "there is no workload called 'w9'; there are w1, " in capsys.readouterr().err
