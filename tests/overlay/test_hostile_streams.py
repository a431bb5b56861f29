"""Hostile bytes: nothing but a protocol error that names the sender, and nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import ssl
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earmark import EarmarkError
from earmark.overlay import server as server_module
from earmark.overlay.access import address_of, dialling_context, listening_context, read_token
from earmark.overlay.channel import (
    MOST_GREETING,
    MOST_PACKET,
    Dialler,
    Listener,
    Packet,
    Packets,
    frame_of,
    frame_packet,
    outgoing,
    packed,
    refusal,
)
from earmark.overlay.client import AsyncClient
from earmark.overlay.connection import Connection, dial
from earmark.overlay.link import Epoch, Frame
from earmark.overlay.messages import InForce, Notify, ProtocolError, Publish, Subscribe
from earmark.overlay.server import BrokerServer, ask_status

from .test_network import PATIENCE, TOKEN, client, numbers, run, server

SESSION = b"s" * 16


def packets_of(data: bytes, sender: str = "x", most: int = MOST_GREETING) -> list[Packet]:
    packets = Packets(sender)
    packets.most = most
    packets.feed(data)
    return list(iter(packets.next, None))


# --- packets, handshake and frames without sockets ---------------------------------------------------------------


def test_packets_whole_and_byte_by_byte() -> None:
    data = packed(b"G", b"one") + packed(b"F") + packed(b"P", b"three")
    expected = [Packet(b"G", b"one"), Packet(b"F", b""), Packet(b"P", b"three")]
    assert packets_of(data) == expected
    packets, found = Packets("x"), []
    for byte in data:
        packets.feed(bytes([byte]))
        found += list(iter(packets.next, None))
    assert found == expected


@pytest.mark.parametrize("data", [b"\0\0\0\0", b"\0\0\x04\x01", b"GET / HTTP/1.1\r\n", b"\xff\xff\xff\xff"])
def test_a_length_that_cannot_be_is_an_error_before_anything_is_kept(data: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"^x: expected a packet of 1 to 1,024 bytes, got [\d,]+$"):
        packets_of(data)


def shaken(dialler_token: bytes = TOKEN, listener_token: bytes = TOKEN) -> tuple[Dialler, Listener]:
    dialler = Dialler(dialler_token, "client", "alice", SESSION, "the listener")
    listener = Listener(listener_token, "b", SESSION, "the dialler")
    (greeting,) = packets_of(dialler.greeting())
    (challenge,) = packets_of(listener.receive(greeting))
    (answer,) = packets_of(dialler.receive(challenge))
    assert listener.receive(answer) == b""
    (welcome,) = packets_of(listener.welcome(7))
    assert dialler.receive(welcome) == b""
    return dialler, listener


def test_the_handshake_proves_the_token_both_ways_and_never_shows_it() -> None:
    dialler, listener = shaken()
    assert listener.dialler is not None and (listener.dialler.name, listener.dialler.role) == ("alice", "client")
    assert dialler.listener is not None and dialler.listener.name == "b"
    assert dialler.welcome is not None and dialler.welcome.last == 7
    assert TOKEN not in dialler.greeting() + listener.welcome()
    with pytest.raises(ProtocolError, match=r"^the dialler: expected the token of this network, got another one$"):
        shaken(dialler_token=b"x" * 30)


def test_a_listener_without_the_token_is_found_out() -> None:
    dialler = Dialler(TOKEN, "client", "alice", SESSION, "the listener")
    listener = Listener(b"x" * 30, "b", SESSION, "the dialler")
    (greeting,) = packets_of(dialler.greeting())
    (challenge,) = packets_of(listener.receive(greeting))
    dialler.receive(challenge)
    with pytest.raises(ProtocolError, match=r"^the listener: does not know the token$"):
        dialler.receive(packets_of(listener.welcome())[0])


def test_proofs_cannot_be_replayed_or_reflected() -> None:
    dialler = Dialler(TOKEN, "client", "alice", SESSION, "l")
    first, second = Listener(TOKEN, "b", SESSION, "d"), Listener(TOKEN, "b", SESSION, "d")
    (greeting,) = packets_of(dialler.greeting())
    (challenge,) = packets_of(first.receive(greeting))
    (answer,) = packets_of(dialler.receive(challenge))
    second.receive(greeting)
    with pytest.raises(ProtocolError, match="got another one"):
        second.receive(answer)
    proof = msgspec.msgpack.encode([answer.body, 0])
    with pytest.raises(ProtocolError, match="does not know the token"):
        dialler.receive(Packet(b"W", proof))


def test_another_version_is_refused_by_its_number() -> None:
    greeting = msgspec.msgpack.encode([9, "client", "alice", SESSION, b"n" * 32])
    with pytest.raises(ProtocolError, match=r"^d: expected protocol version 1, got 9$"):
        Listener(TOKEN, "b", SESSION, "d").receive(Packet(b"G", greeting))


def test_a_refusal_is_shown_without_control_characters() -> None:
    (packet,) = packets_of(refusal("go \x1b[31maway\n"))
    with pytest.raises(ProtocolError, match=r"^l: go  \[31maway $"):
        Dialler(TOKEN, "client", "alice", SESSION, "l").receive(packet)


KINDS = st.sampled_from([b"G", b"C", b"A", b"W", b"R", b"F", b"P", b"S", b"\0", b"\xff"])
JUNK = st.binary(max_size=200) | st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
).map(msgspec.msgpack.encode)


@settings(max_examples=100)
@given(st.lists(st.tuples(KINDS, JUNK), max_size=4))
def test_any_packets_in_a_handshake(packets: list[tuple[bytes, bytes]]) -> None:
    for end in (Listener(TOKEN, "b", SESSION, "them"), Dialler(TOKEN, "client", "a", SESSION, "them")):
        for kind, body in packets:
            with contextlib.suppress(ProtocolError):
                end.receive(Packet(kind, body))
        assert (end.dialler if isinstance(end, Listener) else end.welcome) is None


FRAMES = [
    Frame(Epoch(3, 1), None, 0, 1, (), True),
    Frame(Epoch(3, 1), Epoch(1, 0), 4, 9, (outgoing(Publish(3, {"a": 1, "b": (1.5, None)})),)),
    Frame(Epoch(3, 1), Epoch(1, 0), 4, 9, (outgoing(Subscribe(1, "x", "a > 3")),) * 3),
]


@pytest.mark.parametrize("frame", FRAMES)
def test_frames_there_and_back(frame: Frame[Any]) -> None:
    (packet,) = packets_of(frame_packet(frame), most=MOST_PACKET)
    expected = frame._replace(messages=tuple(one.message for one in frame.messages))
    assert frame_of(packet, "client", "them") == expected


def reason_of(packet: Packet, speaker: Any) -> str | None:
    """Why a packet is refused; None if it is read."""
    try:
        frame_of(packet, speaker, "them")
    except ProtocolError as problem:
        return str(problem)
    return None


@settings(max_examples=100)
@given(
    frame=st.sampled_from(FRAMES),
    changes=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), min_size=1, max_size=4),
    speaker=st.sampled_from(["client", "listener", "broker"]),
)
def test_altered_frames_are_read_or_refused(frame: Frame[Any], changes: list[tuple[int, int]], speaker: Any) -> None:
    (packet,) = packets_of(frame_packet(frame), most=MOST_PACKET)
    body = bytearray(packet.body)
    for place, byte in changes:
        body[place % len(body)] = byte
    reason = reason_of(Packet(b"F", bytes(body)), speaker)
    assert reason is None or reason.startswith("them: malformed frame: ")


@settings(max_examples=150)
@given(KINDS, JUNK, st.sampled_from(["client", "listener", "broker"]))
def test_any_packet_after_the_handshake(kind: bytes, body: bytes, speaker: Any) -> None:
    reason = reason_of(Packet(kind, body), speaker)
    assert reason is None or reason.startswith("them: ")


def test_a_client_may_not_speak_as_a_broker() -> None:
    for message in (InForce(1), Notify("o", 1, 1, {}, (), ())):
        (packet,) = packets_of(frame_packet(FRAMES[0]._replace(messages=(outgoing(message),))), most=MOST_PACKET)
        with pytest.raises(ProtocolError, match=r"^them: malformed frame: "):
            frame_of(packet, "client", "them")


# --- over sockets ------------------------------------------------------------------------------------------------


async def rude(port: int, data: bytes, *, waits: float = 2.0) -> bytes:
    """Send bytes to a broker and return what it answers before it ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    with contextlib.suppress(OSError, TimeoutError):
        writer.write(data)
        await writer.drain()
        async with asyncio.timeout(waits):
            while piece := await reader.read(1 << 16):
                answer += piece
    writer.transport.abort()
    return answer


def test_strangers_are_refused_and_others_do_not_notice(caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(5)
    caplog.set_level(logging.WARNING)
    good = Dialler(TOKEN, "client", "eve", SESSION, "x").greeting()
    streams = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff" * 100_000,
        b"\0" * 100,
        good[:20],
        good + good,
        good + packed(b"A", b"x" * 32),
        good + packed(b"A"),
        packed(b"F", b"\x90"),
        *(rng.randbytes(rng.randrange(1, 2_000)) for _ in range(20)),
        *(packed(rng.choice([b"G", b"A", b"W"]), rng.randbytes(rng.randrange(1, 900))) for _ in range(20)),
    ]

    async def work() -> None:
        async with server("a", handshake=0.5) as a, client(a.address, "alice") as alice:
            await alice.subscribe("all", "n >= 0")
            await alice.wait_in_force(PATIENCE)
            await asyncio.gather(*(rude(a.address.port, data) for data in streams))
            await alice.publish({"n": 1})
            assert await numbers(alice, 1) == [1]
            assert [party.name for party in a.driver.remotes] == ["alice"]
            assert a._failure is not None and not a._failure.done()
            assert a._strangers == 0

    run(work())
    assert all(one.getMessage().startswith("127.0.0.1:") for one in caplog.records if one.name == "earmark.overlay")
    assert "the handshake took too long" in caplog.text


def test_only_so_many_strangers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_STRANGERS", 3)

    async def work() -> None:
        async with server("a", handshake=1.0) as a:
            answers = await asyncio.gather(*(rude(a.address.port, b"\0") for _ in range(6)))
            assert sum(b"too many connections" in answer for answer in answers) == 3
            async with client(a.address, "alice"):
                pass

    run(work())


async def insider(port: int, role: Any, name: str) -> Connection:
    connection, _ = await dial(
        address_of(f"127.0.0.1:{port}"), token=TOKEN, role=role, name=name, session=os.urandom(16)
    )
    return connection


def test_insiders_that_break_the_protocol_lose_their_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(6)
    caplog.set_level(logging.WARNING)
    hello = Frame(Epoch(1, 0), None, 0, 1, (), True)
    wrong: list[bytes] = [
        packed(b"F", b"\x90"),
        packed(b"X"),
        (MOST_PACKET + 1).to_bytes(4, "big"),
        frame_packet(hello._replace(peer=Epoch(2**62, 0))),
        frame_packet(hello._replace(number=0)),
        *(packed(b"F", rng.randbytes(300)) for _ in range(10)),
    ]

    async def work() -> None:
        async with server("a") as a, client(a.address, "alice") as alice:
            await alice.subscribe("all", "n >= 0")
            await alice.wait_in_force(PATIENCE)
            for place, data in enumerate(wrong):
                for role in ("client", "broker"):
                    connection = await insider(a.address.port, role, f"eve {place}")
                    connection.write(data)
                    async with asyncio.timeout(PATIENCE):
                        while await connection.next_packets():
                            pass
                    connection.abort()
            assert await numbers_after(alice) == [1]
            assert a._failure is not None and not a._failure.done()

    async def numbers_after(alice: AsyncClient) -> list[int]:
        await alice.publish({"n": 1})
        return await numbers(alice, 1)

    run(work())
    assert len(caplog.records) >= 2 * len(wrong)
    assert all("eve" in one.getMessage() for one in caplog.records)


def test_a_neighbour_that_talks_nonsense_is_expelled_and_may_come_back(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with server("a") as a:
            connection = await insider(a.address.port, "broker", "eve")
            epoch = Epoch(a.driver.broker.run, 0)
            connection.write(frame_packet(Frame(Epoch(1, 0), None, 0, 1, (), True)))
            connection.write(frame_packet(Frame(Epoch(1, 0), epoch, 0, 1, (outgoing(InForce(77)),))))
            async with asyncio.timeout(PATIENCE):
                while packets := await connection.next_packets():
                    if packets[-1].kind == b"R":
                        assert b"InForce is out of place" in packets[-1].body
            async with server("eve", str(a.address)) as eve:
                async with asyncio.timeout(PATIENCE):
                    while eve.driver.broker.status()["links"].get("a", {}).get("state") != "up":  # type: ignore[attr-defined]
                        await asyncio.sleep(0.01)

    run(work())
    assert "broker 'eve': InForce is out of place" in caplog.text


# --- tokens, addresses, TLS --------------------------------------------------------------------------------------


def test_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EARMARK_TOKEN", raising=False)
    with pytest.raises(EarmarkError, match=r"^expected a token, from a token file or the variable EARMARK_TOKEN$"):
        read_token()
    monkeypatch.setenv("EARMARK_TOKEN", "short")
    with pytest.raises(
        EarmarkError, match=r"^the variable EARMARK_TOKEN: expected a token of 16 to 4,096 bytes, got 5$"
    ):
        read_token()
    file = tmp_path / "token"
    with pytest.raises(EarmarkError, match=r"^the token file '.*token' cannot be read: No such file"):
        read_token(file)
    file.write_bytes(b"  " + b"x" * 32 + b"\n")
    file.chmod(0o644)
    with pytest.raises(EarmarkError, match=r"^the token file '.*token' is open to other users: chmod 600 token$"):
        read_token(file)
    file.chmod(0o600)
    assert read_token(file) == b"x" * 32
    file.write_bytes(b"x" * 10_000)
    with pytest.raises(EarmarkError, match="expected a token of 16 to 4,096 bytes"):
        read_token(file)


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":7", "host:x", "host:70000", "::1:7", "host:-1", "host:7:8", "host:٧"]
)
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(EarmarkError, match=r"^expected an address HOST:PORT such as 127\.0\.0\.1:7000"):
        address_of(text)


def test_addresses() -> None:
    assert str(address_of("[::1]:7")) == "[::1]:7" and address_of("[::1]:7").is_loopback
    assert str(address_of("localhost:0")) == "localhost:0" and address_of("localhost:0").is_loopback
    assert not address_of("10.0.0.1:7").is_loopback


def certificate(folder: Path) -> Path:
    """A certificate for localhost with its key, made by openssl."""
    try:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
             "-keyout", "key.pem", "-out", "cert.pem"],
            cwd=folder, check=True, capture_output=True, timeout=60,
        )  # fmt: skip
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("needs the program openssl")
    (folder / "both.pem").write_bytes((folder / "cert.pem").read_bytes() + (folder / "key.pem").read_bytes())
    return folder / "both.pem"


def test_tls(tmp_path: Path) -> None:
    both = certificate(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    certificate(other)
    listening, dialling = listening_context(both), dialling_context(tmp_path / "cert.pem")
    assert dialling.verify_mode == ssl.CERT_REQUIRED and dialling.check_hostname

    async def work() -> None:
        async with (
            server("a", tls=listening) as a,
            server("b", str(a.address), tls=listening, peer_tls=dialling) as b,
            client(a.address, "alice", tls=dialling) as alice,
            client(b.address, "bob", tls=dialling) as bob,
        ):
            await alice.subscribe("all", "n >= 0")
            await alice.wait_in_force(PATIENCE)
            async with asyncio.timeout(PATIENCE):
                while not b.driver.broker.status()["entries"]:
                    await asyncio.sleep(0.01)
            await bob.publish({"n": 1})
            assert await numbers(alice, 1) == [1]
            assert (await ask_status(a.address, token=TOKEN, tls=dialling))["name"] == "a"
            with pytest.raises(EarmarkError, match="certificate verify failed"):
                await client(a.address, "eve", tls=dialling_context(other / "cert.pem"), patience=1.0).connect()
            with pytest.raises(EarmarkError, match="no connection to the broker"):
                await client(a.address, "eve", patience=1.0).connect()

    run(work())
    BrokerServer("a", token=TOKEN, listen="0.0.0.0:0", tls=listening)
    with pytest.raises(EarmarkError, match=r"^the certificate '.*none\.pem' cannot be used: No such file"):
        listening_context(tmp_path / "none.pem")
    with pytest.raises(EarmarkError, match="cannot be used: "):
        dialling_context(tmp_path / "key.pem")
