"""Real broker processes on this machine: exact deliveries, a link that is cut, a broker that is killed.

    python benchmarks/broker_processes.py                                  # eleven brokers, the tree of figure-1
    python benchmarks/broker_processes.py --network line:3 --subscriptions 300 --publications 600

Each broker is one `earmark broker` with a file for its subscriptions; a link in the middle goes through a proxy. At
each broker one client subscribes and one publishes. What each publication must match is computed by a scan of all
subscriptions. Three rounds, each with all publications:

    quiet    everything arrives, exactly once
    cut      the same, while the link is cut and restored several times
    kill     one broker is ended with kill -9 and started again, half-way. Nothing arrives twice and nothing wrong.
             What is missing was inside that broker: it is counted, its path must lead through that broker, and it must
             have been published before the kill

The tree `figure-1` has as many brokers as Figure 1 of the MICS paper, whose text does not give the edges; they were
chosen (earmark.overlay.simulation.topology). Ends with code 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from earmark import Matcher
from earmark.overlay.access import address_of
from earmark.overlay.client import AsyncClient
from earmark.overlay.server import ask_status
from earmark.overlay.simulation.topology import Topology, topology_of
from tcp_proxy import Proxy

START = 120.0
IN_FORCE = 300.0
UNCONFIRMED = 50
"""Publications after which a publisher waits until its broker has taken them."""
SILENCE = 3.0
"""Seconds without a notification after which a round is over, if nothing waits in any broker."""
LONGEST = 600.0
"""Seconds after which a round is over in any case."""


@dataclass
class Round:
    """What one round showed. Deliveries are pairs of a client and a publication."""

    name: str
    publications: int = 0
    expected: int = 0
    arrived: int = 0
    missing: int = 0
    twice: int = 0
    wrong: int = 0
    missing_elsewhere: int = 0
    """Missing, and not inside the broker that was killed: not on a path through it, or published after its death."""
    uncertain: int = 0
    """Publications that the publisher at the killed broker could not say anything about."""
    shed: int = 0
    """Deliveries that clients were told had been dropped, since they were away for too long."""
    cuts: int = 0
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether the round kept what is promised."""
        allowed = self.missing_elsewhere if self.name == "kill" else self.missing
        return not (self.twice or self.wrong or allowed)


class Process:
    """One broker process."""

    def __init__(self, name: str, port: int, peers: list[str], folder: Path, policy: str) -> None:
        self.name, self.port = name, port
        self._peers, self._folder, self._policy = peers, folder, policy
        self._process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        peers = [word for peer in self._peers for word in ("--peer", peer)]
        with open(self._folder / f"{self.name}.log", "ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "earmark", "broker", "--name", self.name, "--listen", self.address),
                *(*peers, "--policy", self._policy, "--token-file", str(self._folder / "token")),
                *("--state", str(self._folder / f"{self.name}.state")),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(START):
            line = await self._process.stdout.readline()
        if b"listens at" not in line:
            raise SystemExit(f"{self.name} did not start: {(self._folder / f'{self.name}.log').read_text()[-2000:]}")

    async def end(self, number: int = signal.SIGTERM) -> None:
        """End it with a signal."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)
            try:
                async with asyncio.timeout(20):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()


@dataclass
class Subscriber:
    """A client that notes what arrives."""

    client: AsyncClient
    broker: str
    arrived: Counter[int] = field(default_factory=Counter)
    ids: dict[int, frozenset[int]] = field(default_factory=dict)
    last: float = 0.0

    async def listen(self) -> None:
        """Take notifications for ever."""
        async for notification in self.client:
            number = int(notification.event["n"])  # type: ignore[arg-type]
            self.arrived[number] += 1
            self.ids[number] = frozenset(notification.ids)  # type: ignore[arg-type]
            self.last = time.monotonic()


class Network:
    """Brokers, their clients, and what must arrive."""

    def __init__(self, shape: Topology, folder: Path, seed: int, policy: str) -> None:
        self.shape, self.folder, self.policy = shape, folder, policy
        self.rng = random.Random(seed)
        self.processes: dict[str, Process] = {}
        self.subscribers: list[Subscriber] = []
        self.publishers: dict[str, AsyncClient] = {}
        self.token = secrets.token_hex(16).encode()
        self.is_killed = False
        self.matcher = Matcher(index="scan")
        self._stack = contextlib.AsyncExitStack()
        self.proxy: Proxy | None = None

    async def start(self) -> None:
        """Start all brokers and connect all clients."""
        token = self.folder / "token"
        token.touch(mode=0o600)
        token.write_bytes(self.token)
        ports = dict(zip(self.shape.brokers, _free_ports(len(self.shape.brokers)), strict=True))
        for place, name in enumerate(self.shape.brokers):
            peers = []
            if place:
                port = ports[self.shape.brokers[self.shape.parent[place]]]
                if self.proxy is None:
                    self.proxy = await self._stack.enter_async_context(Proxy(port))
                    port = self.proxy.port
                peers = [f"127.0.0.1:{port}"]
            self.processes[name] = Process(name, ports[name], peers, self.folder, self.policy)
        await asyncio.gather(*(process.start() for process in self.processes.values()))
        for name, process in self.processes.items():
            client = await self._connected(process.address, f"subscriber at {name}")
            await client.prefer(queue=1 << 20)
            self.subscribers.append(Subscriber(client, name))
            self.publishers[name] = await self._connected(process.address, f"publisher at {name}")
        await self._all_up()

    async def _connected(self, address: str, name: str) -> AsyncClient:
        client = AsyncClient(address, name=name, token=self.token, patience=START, random=random.Random(name))
        return await self._stack.enter_async_context(client)

    async def _all_up(self) -> None:
        async with asyncio.timeout(START):
            for process in self.processes.values():
                while True:
                    status = await ask_status(address_of(process.address), token=self.token)
                    if status["links"] and all(link["state"] == "up" for link in status["links"].values()):
                        break
                    await asyncio.sleep(0.1)

    async def subscribe(self, count: int) -> None:
        """Spread subscriptions over the brokers, and wait until all are in force."""
        for id in range(count):
            low, kind = self.rng.randrange(9_000), self.rng.randrange(20)
            condition = f"price BETWEEN {low} AND {low + self.rng.randrange(10, 200)} AND kind = {kind}"
            self.matcher.add(id, condition)
            await self.subscribers[id % len(self.subscribers)].client.subscribe(id, condition)
        await asyncio.gather(*(one.client.wait_in_force(IN_FORCE) for one in self.subscribers))

    def events(self, count: int, start: int) -> list[dict[str, int]]:
        """Publications, numbered from `start`."""
        return [
            {"n": start + n, "price": self.rng.randrange(9_200), "kind": self.rng.randrange(20)} for n in range(count)
        ]

    def expected(self, events: list[dict[str, int]]) -> dict[int, dict[int, frozenset[int]]]:
        """For each subscriber and publication, the subscriptions it must be notified of."""
        found: dict[int, dict[int, set[int]]] = {place: {} for place in range(len(self.subscribers))}
        for row in self.matcher.match_many(events).to_pylist():
            owner = found[row["subscription"] % len(self.subscribers)]
            owner.setdefault(events[row["event"]]["n"], set()).add(row["subscription"])
        return {place: {n: frozenset(ids) for n, ids in rows.items()} for place, rows in found.items()}

    async def run(self, name: str, count: int, start: int, disturbance: Any = None) -> Round:
        """One round: publish everywhere at once, meanwhile disturb, and compare what arrived."""
        events = self.events(count, start)
        expected = self.expected(events)
        names = self.shape.brokers
        origins = {event["n"]: names[place % len(names)] for place, event in enumerate(events)}
        result = Round(name, count, sum(map(len, expected.values())))
        before = sum(one.uncertain for one in self.publishers.values())
        shed_before = sum(one.client.shed for one in self.subscribers)
        began = time.monotonic()
        listeners = [asyncio.create_task(one.listen()) for one in self.subscribers]
        progress: Counter[str] = Counter()
        late: set[int] = set()

        async def publish(broker: str) -> None:
            mine = [event for event in events if origins[event["n"]] == broker]
            for place, event in enumerate(mine, 1):
                if self.is_killed:
                    late.add(event["n"])
                await self.publishers[broker].publish(event)
                if place % UNCONFIRMED == 0 or place == len(mine):
                    await self.publishers[broker].flush(IN_FORCE)
                progress["published"] += 1

        tasks = [asyncio.create_task(publish(broker)) for broker in self.shape.brokers]
        if disturbance is not None:
            await disturbance(result, progress, count)
        await asyncio.gather(*tasks)
        await self._silence(expected, began)
        for listener in listeners:
            listener.cancel()
        await asyncio.gather(*listeners, return_exceptions=True)
        result.uncertain = sum(one.uncertain for one in self.publishers.values()) - before
        result.shed = sum(one.client.shed for one in self.subscribers) - shed_before
        self._compare(result, expected, origins, late, began)
        return result

    async def _silence(self, expected: dict[int, dict[int, frozenset[int]]], began: float) -> None:
        """Wait until everything has arrived, or nothing more comes; and a little longer for what comes twice."""
        while True:
            await asyncio.sleep(0.2)
            last = max(began, *(one.last for one in self.subscribers))
            quiet = time.monotonic() - last
            is_complete = all(
                expected[place].keys() <= one.arrived.keys() for place, one in enumerate(self.subscribers)
            )
            if quiet > 1.0 and (is_complete or time.monotonic() - began > LONGEST):
                return
            if quiet > SILENCE and await self._is_idle():
                return

    async def _is_idle(self) -> bool:
        """Whether all links are up, and nothing waits in any broker."""
        for process in self.processes.values():
            status = await ask_status(address_of(process.address), token=self.token)
            rows = [*status["links"].values(), *status["clients"].values()]
            if any(row["queued"] or row["inbox"] or row.get("held") or row.get("waiting") for row in rows):
                return False
            if any(link["state"] != "up" for link in status["links"].values()):
                return False
        return True

    def _compare(self, result: Round, expected: Any, origins: dict[int, str], late: set[int], began: float) -> None:
        last = max(one.last for one in self.subscribers)
        for place, one in enumerate(self.subscribers):
            for n, count in one.arrived.items():
                result.arrived += 1
                result.twice += count - 1
                result.wrong += expected[place].get(n) != one.ids[n]
            for n in expected[place].keys() - one.arrived.keys():
                result.missing += 1
                is_late = n in late and origins[n] != self.victim  # its own are counted as uncertain
                result.missing_elsewhere += is_late or self.victim not in self._path(origins[n], one.broker)
            one.arrived.clear()
            one.ids.clear()
        result.seconds = round(last - began, 2)

    def _path(self, one: str, other: str) -> list[str]:
        """The brokers from one to another."""
        parent, names = self.shape.parent, self.shape.brokers

        def up(place: int) -> list[int]:
            places = [place]
            while places[-1]:
                places.append(int(parent[places[-1]]))
            return places

        first, second = up(names.index(one)), up(names.index(other))
        shared = next(place for place in first if place in second)
        return [names[place] for place in (*first[: first.index(shared) + 1], *second[: second.index(shared)])]

    @property
    def victim(self) -> str:
        """The broker that is killed: one with neighbours on both sides, far from the proxy."""
        inner = [place for place in range(1, len(self.shape.brokers)) if len(self.shape.neighbours[place]) > 1]
        return self.shape.brokers[inner[-1] if inner else 0]

    async def cut(self, result: Round, progress: Counter[str], count: int) -> None:
        """Cut the link and restore it, again and again while publications flow."""
        assert self.proxy is not None
        for share in (0.2, 0.4, 0.6, 0.8):
            while progress["published"] < share * count:
                await asyncio.sleep(0.005)
            self.proxy.cut()
            result.cuts += 1
            await asyncio.sleep(0.3)
            self.proxy.restore()
            await asyncio.sleep(0.3)

    async def kill(self, result: Round, progress: Counter[str], count: int) -> None:
        """Kill a broker half-way, and start it again."""
        while progress["published"] < count / 2:
            await asyncio.sleep(0.002)
        await self.processes[self.victim].end(signal.SIGKILL)
        self.is_killed = True
        await asyncio.sleep(0.5)
        await self.processes[self.victim].start()

    async def close(self) -> None:
        """End everything."""
        await self._stack.aclose()
        await asyncio.gather(*(process.end() for process in self.processes.values()))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


async def trial(
    network: str, subscriptions: int, publications: int, folder: Path, seed: int = 1, policy: str = "covering"
) -> tuple[list[Round], dict[str, float]]:
    """All three rounds; returns what they showed, and how long things took."""
    brokers = Network(topology_of(network, seed), folder, seed, policy)
    seconds: dict[str, float] = {}
    try:
        began = time.monotonic()
        await brokers.start()
        seconds["start"] = round(time.monotonic() - began, 2)
        began = time.monotonic()
        await brokers.subscribe(subscriptions)
        seconds["subscribe"] = round(time.monotonic() - began, 2)
        rounds = []
        for name, disturbance in (("quiet", None), ("cut", brokers.cut), ("kill", brokers.kill)):
            rounds.append(await brokers.run(name, publications, len(rounds) * publications, disturbance))
        return rounds, seconds
    finally:
        await brokers.close()


def main() -> None:
    """Run the rounds and print what they showed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--network", default="figure-1")
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--publications", type=int, default=10_000)
    parser.add_argument("--policy", default="covering")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = trial(asked.network, asked.subscriptions, asked.publications, Path(folder), asked.seed, asked.policy)
        rounds, seconds = asyncio.run(work)
    if asked.json:
        print(json.dumps({"rounds": [asdict(one) for one in rounds], "seconds": seconds}))
    else:
        print(f"{asked.network}, policy {asked.policy}: started in {seconds['start']} s; {asked.subscriptions:,} "
              f"subscriptions in force everywhere after {seconds['subscribe']} s")  # fmt: skip
        for one in rounds:
            rate = one.publications / one.seconds if one.seconds else 0
            print(f"{one.name:6} {one.publications:,} publications, {one.expected:,} deliveries expected: "
                  f"{one.arrived:,} arrived, {one.missing:,} missing "
                  f"({one.missing_elsewhere:,} not inside the killed broker), "
                  f"{one.twice:,} twice, {one.wrong:,} wrong; "
                  f"{one.cuts} cuts, {one.uncertain} uncertain, {one.shed} shed; "
                  f"{one.seconds} s, {rate:,.0f} publications/s: {'right' if one.is_right else 'WRONG'}")  # fmt: skip
    if not all(one.is_right for one in rounds):
        sys.exit(1)


if __name__ == "__main__":
    main()
