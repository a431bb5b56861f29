"""`earmark broker` and `earmark broker status`, as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from earmark.overlay import Client

from .conftest import Earmark

TOKEN = "sixteen bytes or more"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    return file


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A broker process and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "earmark", "broker", "--listen", "127.0.0.1:0", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        assert words[2:4] == ["listens", "at"], (words, process.communicate())
        yield process, words[4]
    finally:
        process.kill()
        process.wait()


def test_a_broker_and_its_status(earmark: Earmark, tmp_path: Path, token: Path) -> None:
    options = ("--name", "hub", "--token-file", str(token), "--state", "hub.state", "--attribute", "t=integer")
    with running(tmp_path, *options, "--policy", "flood") as (process, address):
        with Client(address, name="alice", token_file=token) as alice:
            alice.subscribe("x", "t > 1000")
            alice.wait_in_force(30)
            alice.publish({"t": 1001})
            assert alice.get(30).ids == ("x",)  # type: ignore[union-attr]
            (status,) = earmark("broker", "status", address, "--token-file", token, "--json").rows()
            assert (status["name"], status["policy"], status["clients"]["alice"]["subscriptions"]) == (
                "hub",
                "flood",
                1,
            )
            text = earmark("broker", "status", address, EARMARK_TOKEN=TOKEN).out
        assert text.startswith(f"broker 'hub' at {address}: policy flood, run {status['run']:,}\nwanted: 1 entries\n")
        assert "no neighbours" in text and "\nalice" in text and max(map(len, text.splitlines())) <= 100
        wrong = earmark("broker", "status", address, EARMARK_TOKEN="another token, quite long")
        assert wrong.sentence == f"the broker at {address}: expected the token of this network, got another one"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 143
        assert "earmark: client 'alice' is connected\n" in err and err.endswith("nothing was left half-written\n")
        assert TOKEN not in err and "Traceback" not in err
    assert f"no broker answers at {address}" in earmark("broker", "status", address, "--token-file", token).sentence


def test_mistakes_are_one_sentence(earmark: Earmark, tmp_path: Path, token: Path) -> None:
    assert earmark("broker").sentence == "expected --name, the name of this broker in the network"
    ask = ("broker", "--name", "hub")
    environment = {name: "" for name in ("EARMARK_TOKEN",) if name in os.environ}
    assert "expected a token" in earmark(*ask, **environment).sentence
    ask = (*ask, "--token-file", str(token))
    assert "expected an address HOST:PORT" in earmark(*ask, "--listen", "7000").sentence
    assert "0.0.0.0:7 is not a loopback address" in earmark(*ask, "--listen", "0.0.0.0:7").sentence
    assert "example.org:7 is not a loopback address" in earmark(*ask, "--peer", "example.org:7").sentence
    assert "expected the name of a policy" in earmark(*ask, "--policy", "telepathy").sentence
    assert "does not take" in earmark(*ask, "--option", "x=1").sentence
    assert "'x' is not of the form KEY=VALUE" in earmark(*ask, "--option", "x").sentence
    assert "give --tls-cert as well" in earmark(*ask, "--tls-key", "x").sentence
    assert "the certificate 'x' cannot be used" in earmark(*ask, "--tls-cert", "x").sentence
    (tmp_path / "state").write_text("something else entirely")
    assert "'state' is not the state of a broker" in earmark(*ask, "--state", "state").sentence
    assert "example.org:7 is not a loopback" in earmark("broker", "status", "example.org:7").sentence


def test_help_needs_no_extra_and_a_broker_names_it(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise ModuleNotFoundError('No module named msgspec', name='msgspec')")
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    for arguments, code, out in (
        (["--help"], 0, ""),
        (["broker", "status", "--help"], 0, ""),
        (["broker", "--name", "x"], 2, "earmark: brokers need the package msgspec: pip install 'earmark[overlay]'\n"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "earmark", *arguments],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (code, out)


def test_a_policy_with_a_space(earmark: Earmark, tmp_path: Path, token: Path) -> None:
    from earmark.overlay.space import Space

    space = json.dumps(Space.even({"price": (0, 1000)}).record)
    options = ("--name", "b", "--token-file", str(token), "--policy", "subsumption", "--option", f"space={space}")
    with running(tmp_path, *options) as (_, address):
        assert "policy subsumption" in earmark("broker", "status", address, "--token-file", token).out
