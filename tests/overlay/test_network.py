"""Brokers and clients over TCP, all in one process: exact deliveries, cuts, restarts, takeovers, slow readers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

from earmark import EarmarkError
from earmark.overlay import connection, driver, remote
from earmark.overlay.blocking import Client
from earmark.overlay.broker import Party
from earmark.overlay.client import AsyncClient, RequestRefused
from earmark.overlay.server import BrokerServer, ask_status
from tcp_proxy import Proxy

TOKEN = b"a token that nobody else knows"
PATIENCE = 30.0


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test, within a time limit."""

    async def limited() -> None:
        async with asyncio.timeout(120):
            await work

    asyncio.run(limited())


def server(name: str, *peers: str, **options: Any) -> BrokerServer:
    return BrokerServer(name, token=TOKEN, peers=peers, random=random.Random(name), **options)


def client(address: object, name: str, **options: Any) -> AsyncClient:
    return AsyncClient(str(address), name=name, token=TOKEN, random=random.Random(name), **options)


@contextlib.asynccontextmanager
async def line(*names: str, **options: Any) -> AsyncIterator[list[BrokerServer]]:
    """Brokers in a row, each of which dials the one before it."""
    async with contextlib.AsyncExitStack() as stack:
        servers: list[BrokerServer] = []
        for name in names:
            peers = [str(servers[-1].address)] if servers else []
            servers.append(await stack.enter_async_context(server(name, *peers, **options)))
        for one in servers:
            await until(lambda one=one: all(state == "up" for state in states(one)))
        yield servers


@contextlib.asynccontextmanager
async def severed(**options: Any) -> AsyncIterator[tuple[Proxy, BrokerServer, BrokerServer, AsyncClient, AsyncClient]]:
    """Brokers a and b with a proxy between them, and alice at a, bob at b."""
    async with (
        server("a", **options) as a,
        Proxy(a.address.port) as between,
        server("b", between.address, **options) as b,
        client(a.address, "alice") as alice,
        client(b.address, "bob") as bob,
    ):
        yield between, a, b, alice, bob


def states(one: BrokerServer) -> list[str]:
    links: Any = one.status()["links"]
    return [link["state"] for link in links.values()]


async def until(is_true: Any, seconds: float = PATIENCE) -> None:
    async with asyncio.timeout(seconds):
        while not is_true():
            await asyncio.sleep(0.01)


async def numbers(one: AsyncClient, count: int) -> list[int]:
    """The numbers of this many notifications."""
    found = []
    for _ in range(count):
        notification = await one.get(PATIENCE)
        assert notification is not None, f"only {len(found)} of {count} arrived"
        found.append(notification.event["n"])
    return found  # type: ignore[return-value]


def test_subscribe_publish_and_withdraw_over_three_brokers() -> None:
    async def work() -> None:
        async with (
            line("a", "b", "c") as (a, _, c),
            client(a.address, "alice") as alice,
            client(c.address, "bob") as bob,
        ):
            await alice.subscribe("warm", "t > 20", weights={"t": 2.0})
            await alice.subscribe(7, "t > 30 AND city = 'Oslo'", score=1.0)
            await bob.subscribe("warm", "t < 0")
            await alice.wait_in_force(PATIENCE)
            await bob.wait_in_force(PATIENCE)
            for t, city in ((10, "Oslo"), (25, "Rome"), (35, "Oslo")):
                await bob.publish({"t": t, "city": city})
            first, second = await alice.get(PATIENCE), await alice.get(PATIENCE)
            assert first is not None and second is not None
            assert (first.origin, first.event, first.ids, first.scores) == (
                "c",
                {"t": 25, "city": "Rome"},
                ("warm",),
                (2.0,),
            )
            assert (second.ids, second.event["t"]) == (("warm", 7), 35)
            await alice.unsubscribe("warm")
            await alice.wait_in_force(PATIENCE)
            await bob.publish({"t": 25, "city": "Rome"})
            await bob.publish({"t": 31, "city": "Oslo"})
            third = await alice.get(PATIENCE)
            assert third is not None and third.ids == (7,)
            assert await alice.get(0.1) is None and await bob.get(0.0) is None, (
                "a client sees its own subscriptions only"
            )

    run(work())


def test_refusals_name_the_reason() -> None:
    async def work() -> None:
        async with server("a") as a, client(a.address, "alice") as alice:
            await alice.subscribe("x", "t >")
            with pytest.raises(RequestRefused, match="t >"):
                await alice.wait_in_force(PATIENCE)
            await alice.subscribe("y", "t > 3")
            await alice.wait_in_force(PATIENCE)
            with pytest.raises(EarmarkError, match=r"^there is a subscription 'y' already; withdraw it first"):
                await alice.subscribe("y", "t > 4")
            await alice.unsubscribe("z")
            with pytest.raises(RequestRefused, match="there is no subscription 'z'"):
                await alice.wait_in_force(PATIENCE)
            await alice.publish({"t": "warm"})
            with pytest.raises(RequestRefused, match="warm"):
                await alice.flush(PATIENCE)
            await alice.publish({"t": 5})
            assert (await alice.get(PATIENCE)).event == {"t": 5}  # type: ignore[union-attr]
            with pytest.raises(EarmarkError, match="publish: "):
                await alice.publish({"t": 2**70})
            with pytest.raises(EarmarkError, match="publish: expected at most 1,048,576 bytes"):
                await alice.publish({"t": "x" * 2**21})

    run(work())


def test_the_client_without_asyncio() -> None:
    async def work() -> None:
        async with server("a") as a:
            await asyncio.to_thread(use, str(a.address))

    def use(address: str) -> None:
        with Client(address, name="alice", token=TOKEN) as alice, Client(address, name="bob", token=TOKEN) as bob:
            alice.subscribe(1, "n >= 2")
            alice.prefer(queue=10)
            alice.wait_in_force(PATIENCE)
            bob.advertise("mine", "n > 0")
            bob.wait_in_force(PATIENCE)
            for n in range(4):
                bob.publish({"n": n})
            bob.flush(PATIENCE)
            assert [alice.get(PATIENCE).event["n"] for _ in range(2)] == [2, 3]  # type: ignore[union-attr]
            assert alice.get(0.05) is None and alice.is_connected and (alice.shed, alice.uncertain) == (0, 0)
            alice.unsubscribe(1)
            bob.unadvertise("mine")
            alice.wait_in_force(PATIENCE)
            bob.publish({"n": 9})
            bob.flush(PATIENCE)
            assert alice.get(0.05) is None
        with pytest.raises(EarmarkError, match="this client is closed"):
            alice.publish({})
        alice.close()

    run(work())


def test_a_link_that_is_cut_again_and_again_loses_and_repeats_nothing() -> None:
    async def work() -> None:
        rng = random.Random(3)
        async with (
            server("a") as a,
            Proxy(a.address.port) as between,
            server("b", between.address) as b,
            Proxy(a.address.port) as before_alice,
            Proxy(b.address.port) as before_bob,
            client(before_alice.address, "alice") as alice,
            client(before_bob.address, "bob") as bob,
        ):
            await until(lambda: states(a) == ["up"])
            await alice.subscribe("all", "n >= 0")
            await alice.prefer(queue=100_000)
            await alice.wait_in_force(PATIENCE)
            is_done = False

            async def cut() -> None:
                while not is_done:
                    await asyncio.sleep(rng.uniform(0.01, 0.1))
                    proxy = rng.choice((between, before_alice, before_bob))
                    proxy.cut()
                    await asyncio.sleep(rng.uniform(0, 0.05))
                    proxy.restore()

            async def publish() -> None:
                for n in range(3_000):
                    await bob.publish({"n": n})
                    if n % 50 == 0:
                        await asyncio.sleep(0.02)

            cutting, publishing = asyncio.create_task(cut()), asyncio.create_task(publish())
            assert await numbers(alice, 3_000) == list(range(3_000))
            is_done = True
            await asyncio.gather(cutting, publishing)
            await bob.flush(PATIENCE)
            assert await alice.get(0.2) is None
            assert between.connections > 2 and before_alice.connections > 2 and before_bob.connections > 2
            assert (alice.duplicates, bob.uncertain, alice.shed) == (0, 0, 0)
            links: Any = a.status()["links"]
            assert links["b"]["resets"] == 0

    run(work())


def test_subscriptions_survive_a_restart_of_the_broker(tmp_path: Path) -> None:
    async def work() -> None:
        state = tmp_path / "b.state"
        async with server("a") as a, client(a.address, "alice") as alice:
            b = server("b", str(a.address), state=state)
            await b.start()
            bob = client(b.address, "bob")
            carol = client(b.address, "carol")
            await bob.connect()
            await carol.connect()
            for id in range(50):
                await bob.subscribe(id, f"n >= {id}")
            await bob.unsubscribe(49)
            await bob.wait_in_force(PATIENCE)
            await carol.subscribe("c", "n = 1")
            await carol.prefer(queue=7)
            await carol.wait_in_force(PATIENCE)
            await carol.close()
            await alice.publish({"n": 1})
            assert (await bob.get(PATIENCE)).ids == (0, 1)  # type: ignore[union-attr]
            await b.close()

            again = server("b", str(a.address), state=state, listen=str(b.address))
            assert again.driver.broker.run > b.driver.broker.run
            assert len(list(again.driver.broker.subscriptions())) == 50
            again.driver.broker.detach("carol")
            assert again.driver.broker._clients.of("carol").prefers.queue == 7
            await again.start()
            await bob.subscribe("new", "n = 2")
            await bob.wait_in_force(PATIENCE)
            await until(lambda: states(a) == ["up"])
            await alice.publish({"n": 2})
            assert (await bob.get(PATIENCE)).ids == (0, 1, 2, "new")  # type: ignore[union-attr]
            assert await bob.get(0.05) is None and bob.duplicates == 0
            await alice.publish({"n": 1})
            await alice.flush(PATIENCE)
            carol_again = client(again.address, "carol")
            await carol_again.connect()
            assert (await carol_again.get(PATIENCE)).ids == ("c",)  # type: ignore[union-attr]
            await carol_again.unsubscribe("c")
            await carol_again.wait_in_force(PATIENCE)
            for one in (bob, carol_again):
                await one.close()
            await again.close()

    run(work())


def test_a_broker_without_a_file_hears_everything_again_from_its_clients() -> None:
    async def work() -> None:
        async with server("a") as a, client(a.address, "alice") as alice:
            b = server("b", str(a.address))
            await b.start()
            async with client(b.address, "bob") as bob:
                await bob.subscribe("x", "n > 0")
                await bob.subscribe("y", "n > 1")
                await bob.prefer(k=1)
                await bob.wait_in_force(PATIENCE)
                await b.close()
                await bob.unsubscribe("x")
                await bob.subscribe("x", "n > 2")
                await bob.publish({"n": 0})
                async with server("b", str(a.address), listen=str(b.address)) as again:
                    await bob.wait_in_force(PATIENCE)
                    clients: Any = again.status()["clients"]
                    assert clients["bob"]["subscriptions"] == 2
                    await until(lambda: states(a) == ["up"])
                    await alice.publish({"n": 2})
                    assert (await bob.get(PATIENCE)).ids == ("y",)  # type: ignore[union-attr]

    run(work())


def test_a_broker_that_lost_its_file_is_heard_again(tmp_path: Path) -> None:
    async def work() -> None:
        state = tmp_path / "b.state"
        async with server("a") as a, client(a.address, "alice") as alice:
            await alice.subscribe("all", "n >= 0")
            for n in range(2):
                async with server("b", str(a.address), state=state) as b, client(b.address, "bob") as bob:
                    await until(lambda: states(a) == ["up"])
                    await bob.publish({"n": n})
                    assert await numbers(alice, 1) == [n]
                state.unlink()

    run(work())


def test_a_client_that_starts_again_goes_on_where_it_was() -> None:
    async def work() -> None:
        async with server("a") as a, client(a.address, "bob") as bob:
            async with client(a.address, "alice") as alice:
                await alice.subscribe("all", "n >= 0")
                await alice.wait_in_force(PATIENCE)
                await bob.publish({"n": 0})
                assert await numbers(alice, 1) == [0]
                await asyncio.sleep(0.05)
            for n in range(1, 4):
                await bob.publish({"n": n})
            await bob.flush(PATIENCE)
            async with client(a.address, "alice") as alice:
                assert await numbers(alice, 3) == [1, 2, 3]
                await alice.unsubscribe("all")
                await alice.wait_in_force(PATIENCE)
                await bob.publish({"n": 4})
                assert await alice.get(0.1) is None

    run(work())


def test_clients_that_stay_away_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "IDLE", 0.2)
    monkeypatch.setattr(driver, "SWEEP", 0.1)

    async def work() -> None:
        async with server("a", state=tmp_path / "a", forget_after=1.0) as a:
            async with client(a.address, "alice") as alice, client(a.address, "bob") as bob:
                await alice.subscribe("x", "n > 0")
                await alice.wait_in_force(PATIENCE)
                await bob.publish({"n": 0})
                await bob.flush(PATIENCE)
                await asyncio.sleep(1.5)
                assert len(a.driver.remotes) == 2, "whoever is connected stays"
            await until(lambda: [party.name for party in a.driver.remotes] == ["alice"])
            assert len(list(a.driver.broker.subscriptions())) == 1
            await until(lambda: not a.driver.remotes)
            assert a.status()["clients"] == {} and not list(a.driver.broker.subscriptions())
        async with server("a", state=tmp_path / "a") as a:
            assert not list(a.driver.broker.subscriptions())

    run(work())


def test_a_silent_connection_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PING", 0.1)
    monkeypatch.setattr(connection, "SILENCE", 0.4)

    async def work() -> None:
        async with server("a") as a, Proxy(a.address.port) as proxy, client(proxy.address, "alice") as alice:
            await alice.subscribe("all", "n >= 0")
            await alice.wait_in_force(PATIENCE)
            await asyncio.sleep(1.0)
            assert proxy.connections == 1, "pings keep a connection alive"
            proxy.is_stalled = True
            await until(lambda: not alice.is_connected and not a.driver.remotes[Party("client", "alice")].connection)
            proxy.is_stalled = False
            await alice.publish({"n": 1})
            assert await numbers(alice, 1) == [1] and proxy.connections > 1

    run(work())


def test_only_one_connection_counts_for_a_name() -> None:
    async def work() -> None:
        async with server("a") as a, client(a.address, "alice") as alice:
            with pytest.raises(EarmarkError, match="client 'alice': somebody with this name is connected"):
                await client(a.address, "alice").connect()
            await alice.subscribe("all", "n >= 0")
            await alice.wait_in_force(PATIENCE)
            # The client gives up a connection that the broker still believes in.
            async with Proxy(a.address.port) as proxy, client(proxy.address, "bob") as bob:
                await bob.publish({"n": 1})
                proxy.is_stalled = True
                assert bob._connection is not None
                bob._connection.abort()
                await bob.publish({"n": 2})
                await asyncio.sleep(0.1)
                proxy.is_stalled = False
                assert await numbers(alice, 2) == [1, 2]
                assert proxy.connections >= 2

    run(work())


def test_brokers_that_dial_each_other_keep_one_connection() -> None:
    async def work() -> None:
        async with server("b") as b:
            a = server("a", str(b.address))
            b._peers.append(a.address)
            async with a:
                b._begin(b._dial(a.address))
                await until(lambda: states(a) == states(b) == ["up"])
                remote = next(iter(a.driver.remotes.values()))
                # The one whose name sorts first dials.
                await until(lambda: remote.is_dialled and states(a) == states(b) == ["up"])
                kept = remote.connection
                await asyncio.sleep(1.0)
                assert remote.connection is kept and states(a) == states(b) == ["up"]
                async with client(a.address, "alice") as alice, client(b.address, "bob") as bob:
                    await alice.subscribe(1, "n > 0")
                    await alice.wait_in_force(PATIENCE)
                    await bob.publish({"n": 1})
                    assert await numbers(alice, 1) == [1]

    run(work())


def test_a_slow_reader_is_told_what_was_shed_and_slows_nobody_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "SLOW", 100)

    async def work() -> None:
        async with server("a") as a, client(a.address, "slow") as slow, client(a.address, "quick") as quick:
            for one in (slow, quick):
                await one.subscribe("all", "n >= 0")
                await one.prefer(queue=50 if one is slow else 100_000)
                await one.wait_in_force(PATIENCE)

            async def publish() -> None:
                async with client(a.address, "bob") as bob:
                    for n in range(10_000):
                        await bob.publish({"n": n})
                    await bob.flush(PATIENCE)

            publishing = asyncio.create_task(publish())
            assert await numbers(quick, 10_000) == list(range(10_000))
            await publishing
            found: list[int] = []
            while (notification := await slow.get(0.5)) is not None:
                found.append(notification.event["n"])  # type: ignore[arg-type]
            assert found == sorted(set(found)) and len(found) + slow.shed == 10_000
            assert slow.shed > 0 and len(found) < 7_000

    run(work())


def test_waiting_for_an_answer_sheds_what_nobody_reads() -> None:
    async def work() -> None:
        async with server("a") as a, client(a.address, "alice") as alice, client(a.address, "bob") as bob:
            await alice.subscribe("all", "n >= 0")
            await alice.prefer(queue=10)
            await alice.wait_in_force(PATIENCE)
            for n in range(6_000):
                await bob.publish({"n": n})
            await bob.flush(PATIENCE)
            await alice.subscribe("more", "n > 7")
            await alice.wait_in_force(PATIENCE)
            assert alice.shed > 0

    run(work())


def test_a_publisher_waits_while_a_neighbour_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MOST_QUEUED", 3_000)

    async def work() -> None:
        async with severed() as (between, _, b, alice, bob):
            await alice.subscribe("all", "n >= 0")
            await alice.prefer(queue=100_000)
            await alice.wait_in_force(PATIENCE)
            await until(lambda: states(b) == ["up"])
            between.cut()
            count = 0

            async def publish() -> None:
                nonlocal count
                for n in range(15_000):
                    await bob.publish({"n": n})
                    count += 1

            publishing = asyncio.create_task(publish())
            for _ in range(200):
                before = count
                await asyncio.sleep(0.1)
                if count == before > 0:
                    break
            assert count < 15_000, "nothing made the publisher wait"
            links: Any = b.status()["links"]
            assert 0.5 < links["a"]["fullness"] <= 1 and links["a"]["resets"] == 0
            between.restore()
            assert await numbers(alice, 15_000) == list(range(15_000))
            await publishing

    run(work())


def test_a_neighbour_that_stays_away_does_not_block_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MOST_QUEUED", 500)

    async def work() -> None:
        async with severed(holding=500, patience=0.5) as (between, _, b, alice, bob):
            await alice.subscribe("all", "n >= 0")
            await alice.wait_in_force(PATIENCE)
            await bob.subscribe("mine", "n >= 0")
            await bob.prefer(queue=100_000)
            await bob.wait_in_force(PATIENCE)
            between.cut()
            publishing = asyncio.create_task(_publish(bob, 5_000))
            assert await numbers(bob, 5_000) == list(range(5_000))
            await publishing
            between.restore()
            await until(lambda: states(b) == ["up"])
            await bob.publish({"n": 5_000})
            arrived = []
            while not arrived or arrived[-1] != 5_000:
                arrived += await numbers(alice, 1)
            assert arrived == sorted(set(arrived)) and len(arrived) < 5_000, "the oldest were dropped, none came twice"

    run(work())


async def _publish(one: AsyncClient, count: int) -> None:
    for n in range(count):
        await one.publish({"n": n})


def test_the_status_tells_tables_links_and_queues() -> None:
    async def work() -> None:
        async with line("a", "b") as (a, b), client(a.address, "alice") as alice:
            await alice.subscribe("x", "n > 0")
            await alice.wait_in_force(PATIENCE)
            status = await ask_status(b.address, token=TOKEN)
            assert (status["name"], status["policy"], status["address"]) == ("b", "covering", str(b.address))
            link = status["links"]["a"]
            assert (link["state"], link["wants"], link["queued"], link["connected"]) == ("up", 1, 0, True)
            assert (await ask_status(a.address, token=TOKEN))["clients"]["alice"]["subscriptions"] == 1
            with pytest.raises(EarmarkError, match="got another one"):
                await ask_status(a.address, token=b"something else entirely")
        with pytest.raises(EarmarkError, match=f"no broker answers at {a.address}"):
            await ask_status(a.address, token=TOKEN)

    run(work())


def test_policies_and_names_must_agree() -> None:
    async def work() -> None:
        async with server("a", policy="flood") as a, server("b", str(a.address), policy="covering") as b:
            await until(lambda: b.driver.broker.status()["errors"] or a.driver.broker.status()["errors"])
        async with server("a") as a, server("a", str(a.address)) as other:
            await asyncio.sleep(0.2)
            assert not a.driver.remotes and not other.driver.remotes

    run(work())


@pytest.mark.parametrize("who", ["client", "broker"])
def test_a_wrong_token_is_refused_and_never_written_down(who: str, caplog: pytest.LogCaptureFixture) -> None:
    wrong = b"another secret, quite wrong"
    caplog.set_level(logging.DEBUG)

    async def work() -> None:
        async with server("a") as a:
            if who == "client":
                with pytest.raises(EarmarkError, match="got another one"):
                    await AsyncClient(str(a.address), name="alice", token=wrong).connect()
            else:
                async with BrokerServer("b", token=wrong, peers=[str(a.address)]) as b:
                    await asyncio.sleep(0.3)
                    assert not b.driver.remotes
            assert not a.driver.remotes

    run(work())
    assert "got another one" in caplog.text
    assert "secret" not in caplog.text and "nobody else" not in caplog.text


def test_other_machines_need_tls_or_permission() -> None:
    with pytest.raises(EarmarkError, match=r"^0\.0\.0\.0:0 is not a loopback address: give a TLS certificate"):
        BrokerServer("a", token=TOKEN, listen="0.0.0.0:0")
    with pytest.raises(EarmarkError, match=r"^10\.0\.0\.1:7 is not a loopback address"):
        BrokerServer("a", token=TOKEN, peers=["10.0.0.1:7"])
    with pytest.raises(EarmarkError, match=r"^example\.org:7 is not a loopback address"):
        AsyncClient("example.org:7", name="x", token=TOKEN)
    BrokerServer("a", token=TOKEN, listen="0.0.0.0:0", allow_remote=True)
    BrokerServer("a", token=TOKEN, listen="[::1]:0", peers=["localhost:7"])


def test_no_broker_and_a_port_in_use() -> None:
    async def work() -> None:
        async with server("a") as a:
            with pytest.raises(EarmarkError, match=f"^cannot listen at {a.address}: "):
                await server("b", listen=str(a.address)).start()
        with pytest.raises(EarmarkError, match=f"^no connection to the broker at {a.address}: "):
            await client(a.address, "alice", patience=0.3).connect()

    run(work())
