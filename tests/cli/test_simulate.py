"""`earmark simulate`: summaries, figures, pictures, files; and sentences for what cannot be simulated."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from earmark.cli.simulate import CONTENTS, simulate
from earmark.errors import EarmarkError
from earmark.overlay.simulation import CONTENTS as KNOWN

SMALL = ["--topology", "line:3", "--subscriptions", "30", "--publications", "20", "--attributes", "2", "--clients", "2"]


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(simulate, [*SMALL, *map(str, arguments)], catch_exceptions=False)


def test_summary_and_comparison() -> None:
    lines = run("--withdraw", "0.5", "--workload", "shen-uniform").output.splitlines()
    assert lines[0].startswith("flood on line:3: 3 brokers, 6 clients, 30 subscriptions (shen-uniform, 2 attributes)")
    assert sum(" exact: " in line for line in lines) == 2
    assert lines[-3].split()[:5] == ["policy", "control", "bytes", "entries", "largest"]
    assert [line.split()[0] for line in lines[-2:]] == ["flood", "covering"]


def test_json_and_record(tmp_path: Path) -> None:
    arguments = ["--json", "--policies", "covering", "--mixed", "--loss", "0.1", "--cuts", "2", "--crashes", "1"]
    first, second = (run(*arguments, "--record", tmp_path / name) for name in ("a.jsonl", "b.jsonl"))
    (one,), (other,) = (json.loads(done.stdout)["runs"] for done in (first, second))
    assert one.pop("seconds") > 0 and other.pop("seconds") > 0
    assert one == other and one["exact"] is True and one["frames"]["sent"] > 0
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_files_and_links(tmp_path: Path) -> None:
    (tmp_path / "ads.csv").write_text("id,condition\na,age > 30\nb,born < DATE '2000-01-01'\nc,city = 'Oslo'\n")
    (tmp_path / "visitors.csv").write_text("age,born,city,more\n40,1990-05-05,Oslo,x\n20,2005-05-05,Rome,y\n,,Oslo,z\n")
    (tmp_path / "links").write_text("rome oslo\nlima,oslo\n\n")
    files = ["--subscriptions-file", tmp_path / "ads.csv", "--events-file", tmp_path / "visitors.csv"]
    names = "flood,covering,subsumption,merging-gap"
    done = run(*files, "--topology", tmp_path / "links", "--policies", names, "--json")
    for report in json.loads(done.stdout)["runs"]:
        assert report["exact"] and report["verdict"]["delivered"] == 4 and report["brokers"] == 3


def test_pictures(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "pictures"
    done = run("--plot", folder)
    assert sorted(path.name for path in folder.iterdir()) == ["policies.png", "policies.svg"]
    assert (folder / "policies.png").read_bytes().startswith(b"\x89PNG")
    assert "covering" in (folder / "policies.svg").read_text() or (folder / "policies.svg").stat().st_size > 1_000
    assert str(folder / "policies.png") in done.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--policies", "flood,gossip"], "expected different policies among flood, covering"),
        (["--policies", "flood,flood"], "expected different policies among"),
        (["--record", "x.jsonl"], "--record is for one policy"),
        (["--topology", "ring:3"], "expected a network such as line:N"),
        (["--topology", "line:1001"], "expected at most 1,000 brokers"),
        (["--events-file", "x.csv"], "--subscriptions-file and --events-file go together"),
        (["--delay", "0"], "expected a delay from 1 microsecond"),
        (["--policies", "flood", "--record", "/nowhere/x.jsonl"], "'/nowhere/x.jsonl' cannot be written"),
    ],
)
def test_sentences(arguments: list[str], sentence: str) -> None:
    with pytest.raises(EarmarkError, match=sentence):
        run(*arguments)


def test_an_extra_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(EarmarkError, match=r"simulate --plot needs matplotlib.*pip install 'earmark\[report\]'"):
        run("--plot", "pictures")
    monkeypatch.setitem(sys.modules, "msgspec", None)
    with pytest.raises(EarmarkError, match=r"simulate needs msgspec.*pip install 'earmark\[overlay\]'"):
        run()


def test_the_help_names_every_workload_and_fits() -> None:
    assert CONTENTS == KNOWN
    text = CliRunner().invoke(simulate, ["--help"], max_content_width=100).output
    assert max(map(len, text.splitlines())) <= 100
