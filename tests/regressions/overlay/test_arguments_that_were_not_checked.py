"""Tokens that are too short, k = 0, and hosts and state files that are none, were taken, or not named."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest

from earmark import EarmarkError
from earmark.overlay import messages as m
from earmark.overlay.access import address_of
from earmark.overlay.client import AsyncClient
from earmark.overlay.server import BrokerServer
from earmark.overlay.store import Store, StoreError

TOKEN = b"a token that nobody else knows"


@pytest.mark.parametrize("token", [b"", b"x" * 15, b"x" * 4_097])
def test_tokens_have_a_least_and_a_greatest_length(token: bytes) -> None:
    expected = rf"'a': expected a token of 16 to 4,096 bytes, got {len(token):,}$"
    with pytest.raises(EarmarkError, match=f"^broker {expected}"):
        BrokerServer("a", token=token)
    with pytest.raises(EarmarkError, match=f"^client {expected}"):
        AsyncClient("127.0.0.1:7000", name="a", token=token)


def test_k_is_at_least_one() -> None:
    assert m.decoded(m.encoded(m.Prefer(1, 1)), "x") == m.Prefer(1, 1)
    with pytest.raises(m.ProtocolError, match=r"^x: malformed message: .*\.k`$"):
        m.decoded(m.encoded(m.Prefer(1, 0)), "x")


@pytest.mark.parametrize("text", ["a..b:7000", "x" * 64 + ":7000"])
def test_hosts_that_are_none(text: str) -> None:
    with pytest.raises(EarmarkError, match=r"^expected an address HOST:PORT with a name of a host, got '"):
        address_of(text)


def test_a_state_is_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/full"), Path("/dev/null"), tmp_path / "pipe"):
        with pytest.raises(StoreError, match=rf"^the state file '{path}' is not a regular file"):
            Store(path, "a")
    with pytest.raises(StoreError, match="cannot be opened: Is a directory"):
        Store(tmp_path, "a")
    with pytest.raises(StoreError, match="cannot be opened: embedded null byte"):
        Store("a\0b", "a")


def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=rf"^the state file '{tmp_path / 'a'}' .*: No space left on device$"):
        Store(tmp_path / "a", "a")


def test_a_broker_that_stops_with_a_sentence_shows_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with BrokerServer("a", token=TOKEN) as a:
            a._fail(StoreError("the state file 'x' cannot be written: No space left on device"))
            with pytest.raises(StoreError):
                await a.failed()
        async with BrokerServer("a", token=TOKEN) as a:
            a._fail(KeyError("a bug"))
            with pytest.raises(KeyError):
                await a.failed()

    caplog.set_level(logging.ERROR, "earmark.overlay")
    asyncio.run(work())
    sentence, bug = caplog.records
    assert sentence.getMessage() == ("the broker stops: the state file 'x' cannot be written: No space left on device")
    assert sentence.exc_info is None and bug.exc_info is not None
