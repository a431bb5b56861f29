"""The examples that need no Spark run as a user would run them, and what they print is true."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: object) -> str:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, arguments)]
    environment = {**os.environ, "EARMARK_QUIET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def test_property_alerts() -> None:
    out = run("property_alerts")
    assert "the search of dev was refused" in out and "not part of a condition" in out
    assert "Oslo, 4 rooms, 590,000\n  tell cho (score 5)\n  tell ann (score 4)\n  'bob' misses by ✗ price" in out
    assert "Bergen, 2 rooms, 310,000\n  tell bob (score 2)\n  tell eve (score 2)\n" in out
    assert "'cho' matches, score 5\n" in out


def test_fraud_rules() -> None:
    out = run("fraud_rules", "--payments", 5000)
    assert "not with another attribute" in out
    assert "'new device, large' is covered by 'new device'" in out and "'typo'" in out
    before, after = (int(one.replace(",", "")) for one in re.findall(r"([\d,]+) hits", out))
    assert 0 < after < before
    assert re.search(r"'[a-z ,]+' matches, score \d", out)


def test_brokers() -> None:
    out = run("brokers")
    assert "messages between brokers: 2 Want\n" in out
    assert "ann is notified of {'price': 180000, 'rooms': 4}, for homes, bargains" in out
    assert "(nothing yet)\n  ann is notified of {'price': 300000, 'rooms': 2}, for homes" in out
    assert "messages between brokers: 2 Want, 2 Unwant\n  ann is notified of {'price': 150000" in out
    assert out.count("is notified") == 3


RULES = """\
@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0200\t
@10.1.2.3/32\t0.0.0.0/0\t0 : 65535\t1 : 100\t0x06/0xFF\t0x0000/0x0200\t
@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\t
"""


@pytest.mark.parametrize("kind", [None, "acl", "acl.gz"])
def test_packet_filter(tmp_path: Path, kind: str | None) -> None:
    if kind is None:
        out = run("packet_filter")
        assert out.startswith("401 rules\n10,000 packets, 10,000 decided, ")
    else:
        path = tmp_path / kind
        path.write_bytes(gzip.compress(RULES.encode()) if kind.endswith(".gz") else RULES.encode())
        out = run("packet_filter", path)
        assert out.startswith("3 rules\n")
    decided = re.search(r"is decided by rule (\d+): ", out)
    matching = re.search(r"in order: \[(\d+)[,\]]", out)
    assert decided and matching and decided[1] == matching[1]  # the first that matches decides
