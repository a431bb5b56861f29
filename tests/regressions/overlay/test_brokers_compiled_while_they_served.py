"""With an empty cache of kernels, a broker compiled in its event loop: it did not answer for as long as SILENCE."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.overlay.network import Network

from earmark.jit import JIT, note
from earmark.overlay import Client
from earmark.overlay.messages import Advertise
from earmark.overlay.space import Space
from earmark.overlay.warming import warm_broker

pytestmark = pytest.mark.skipif(not JIT, reason="kernels are plain Python in this run")
SPACE = Space.even({"x": (0, 100), "y": (0, 9)}, bits=5)
TOKEN = b"a token that nobody else knows"


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("flood", {}),
        ("covering", {"graph": "poset", "withdraw": True}),
        ("subsumption", {"space": SPACE.record}),
        ("subsumption", {"by": "indexing"}),
        ("merging", {"space": SPACE, "budget": 0.1, "sample": [{"x": 3, "y": 4}]}),
    ],
)
@pytest.mark.parametrize("advertisements", [False, True])
def test_nothing_is_left_to_compile(policy: str, options: dict[str, Any], advertisements: bool) -> None:
    warm_broker(policy, options, advertisements)
    before = note.compiled
    network = Network([("a", "b"), ("b", "c")], policy=policy, options=options, advertisements=advertisements)
    network.run()
    if advertisements:
        network.request("bob@c", Advertise, 1, "x > 3")
        network.run()
    network.subscribe("ann@a", 1, "x > 5 AND y = 2")
    network.run()
    network.publish("bob@c", {"x": 7, "y": 2})
    network.run()
    network.unsubscribe("ann@a", 1)
    network.run()
    assert network.inbox("ann@a") == [({"x": 7, "y": 2}, (1,))] and note.compiled == before


@pytest.mark.slow
def test_a_broker_listens_when_all_is_compiled(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "earmark", "broker", "--listen", "127.0.0.1:0", "--name", "hub"],
        env={**os.environ, "EARMARK_CACHE_DIR": str(tmp_path), "EARMARK_TOKEN": TOKEN.decode()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        assert "compiling what this broker needs" in process.stderr.readline()
        address = process.stdout.readline().split()[-1]
        begun = time.monotonic()
        with Client(address, name="ann", token=TOKEN) as ann:
            ann.subscribe(1, "x > 3")
            ann.wait_in_force(30)
            ann.publish({"x": 4})
            assert ann.get(30) is not None
        assert time.monotonic() - begun < 5
    finally:
        process.kill()
        _, err = process.communicate()
    assert "compiling kernels" not in err
