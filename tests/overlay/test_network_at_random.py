"""Random requests over real connections that are cut, to brokers that start again: deliveries are those of one scan."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from earmark.overlay.client import AsyncClient
from earmark.overlay.server import BrokerServer
from earmark.overlay.space import Space
from tcp_proxy import Proxy

from .test_network import PATIENCE, client, run, server, states, until

PARENTS = {"b": "a", "c": "b", "d": "b", "e": "d"}
Owned = tuple[str, int]


class Trial:
    """Five brokers, a proxy on every edge, a client at each; what each was told, and what arrived."""

    def __init__(self, seed: int, folder: Path, policy: str) -> None:
        self.rng = random.Random(seed)
        self.folder, self.policy = folder, policy
        self.servers: dict[str, BrokerServer] = {}
        self.proxies: dict[str, Proxy] = {}
        self.clients: dict[str, AsyncClient] = {}
        self.ranges: dict[Owned, tuple[int, int]] = {}
        self.state: dict[Owned, str] = {}
        self.must: dict[int, set[Owned]] = {}
        self.gone: dict[int, set[Owned]] = {}
        self.xs: dict[int, int] = {}
        self.arrived: dict[tuple[str, int], list[tuple[int, ...]]] = defaultdict(list)
        self.ids = iter(range(10**6))

    def server(self, name: str, listen: str = "127.0.0.1:0") -> BrokerServer:
        peers = [self.proxies[name].address] if name in PARENTS else []
        options = {"space": Space.even({"x": (0, 140)})} if self.policy in ("subsumption", "merging") else {}
        return server(name, *peers, policy=self.policy, options=options, state=self.folder / name, listen=listen)

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        for name in "abcde":
            if name in PARENTS:
                parent = self.servers[PARENTS[name]].address.port
                self.proxies[name] = await stack.enter_async_context(Proxy(parent))
            self.servers[name] = self.server(name)
            await self.servers[name].start()
            stack.push_async_callback(self.close, name)
        for name, one in self.servers.items():
            self.clients[name] = await stack.enter_async_context(client(one.address, name))
            await self.clients[name].prefer(queue=100_000)
        await self.all_up()

    async def close(self, name: str) -> None:
        await self.servers[name].close()

    async def all_up(self) -> None:
        await until(lambda: all(set(states(one)) == {"up"} for one in self.servers.values()), 60)

    async def restart(self) -> None:
        name = self.rng.choice("abcde")
        address = str(self.servers[name].address)
        await self.servers[name].close()
        await asyncio.sleep(self.rng.uniform(0, 0.1))
        self.servers[name] = self.server(name, address)
        await self.servers[name].start()

    async def step(self) -> None:
        name = self.rng.choice("abcde")
        one = self.clients[name]
        mine = [owned for owned, state in self.state.items() if owned[0] == name and state in ("asked", "in force")]
        match self.rng.choices(["subscribe", "unsubscribe", "wait", "publish", "cut"], [4, 2, 1, 12, 1])[0]:
            case "subscribe":
                owned, low = (name, next(self.ids)), self.rng.randrange(100)
                self.ranges[owned] = low, low + self.rng.randrange(1, 40)
                self.state[owned] = "asked"
                await one.subscribe(owned[1], f"x BETWEEN {low} AND {self.ranges[owned][1]}")
            case "unsubscribe" if mine:
                owned = self.rng.choice(mine)
                self.state[owned] = "leaving"
                for must in self.must.values():  # what is on its way may arrive or not
                    must.discard(owned)
                await one.unsubscribe(owned[1])
            case "wait":
                await self.wait(name)
            case "publish":
                await self.publish(name)
            case "cut":
                proxy = self.rng.choice([*self.proxies.values()])
                proxy.cut()
                await asyncio.sleep(self.rng.uniform(0, 0.05))
                proxy.restore()

    async def wait(self, name: str) -> None:
        await self.clients[name].wait_in_force(60)
        for owned, state in [*self.state.items()]:
            if owned[0] == name:
                self.state[owned] = {"asked": "in force", "leaving": "gone"}.get(state, state)

    async def publish(self, name: str) -> None:
        n, x = next(self.ids), self.rng.randrange(140)
        matching = {owned for owned, (low, high) in self.ranges.items() if low <= x <= high}
        self.must[n] = {owned for owned in matching if self.state[owned] == "in force"}
        self.gone[n] = {owned for owned in matching if self.state[owned] == "gone"}
        self.xs[n] = x
        await self.clients[name].publish({"x": x, "n": n})

    async def listen(self, name: str) -> None:
        async for notification in self.clients[name]:
            self.arrived[name, notification.event["n"]].append(notification.ids)  # type: ignore[index,arg-type]

    def check(self, is_complete_from: int) -> None:
        """Nothing twice and nothing wrong; and from a publication on, nothing missing."""
        for (name, n), several in self.arrived.items():
            assert len(several) == 1, f"{n} came {len(several)} times to {name}"
            got = {(name, id) for id in several[0]}
            assert len(got) == len(several[0]) and not got & self.gone[n]
            assert all(self.ranges[owned][0] <= self.xs[n] <= self.ranges[owned][1] for owned in got)
            assert {owned for owned in self.must[n] if owned[0] == name} <= got
        for n, must in self.must.items():
            if n >= is_complete_from:
                missing = {owned for owned in must if (owned[0], n) not in self.arrived}
                assert not missing, f"{n} did not reach {missing}"


async def trial(seed: int, folder: Path, steps: int, restarts: int, policy: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        one = Trial(seed, folder, policy)
        await one.start(stack)
        listeners = [asyncio.create_task(one.listen(name)) for name in "abcde"]
        for number in range(steps):
            await one.step()
            if restarts and number % (steps // restarts) == steps // restarts // 2:
                await one.restart()
        complete_from = 0
        if restarts:  # what was inside a broker may be lost, so only what follows must be complete
            await one.all_up()
            complete_from = next(one.ids)
        for name in "abcde":
            await one.wait(name)
        for _ in range(50):
            await one.publish(one.rng.choice("abcde"))
        await asyncio.gather(*(client.flush(60) for client in one.clients.values()))

        def is_complete() -> bool:
            wanted = {(name, n) for n, must in one.must.items() if n >= complete_from for name, _ in must}
            return wanted <= one.arrived.keys()

        with contextlib.suppress(TimeoutError):
            await until(is_complete, PATIENCE)
        await asyncio.sleep(0.3)
        for listener in listeners:
            listener.cancel()
        one.check(complete_from)
        assert len(one.arrived) > steps // 10


@pytest.mark.parametrize(("seed", "policy"), [(1, "covering"), (2, "flood")])
def test_with_cuts(tmp_path: Path, seed: int, policy: str) -> None:
    run(trial(seed, tmp_path, 300, 0, policy))


@pytest.mark.parametrize(("seed", "policy"), [(3, "covering")])
def test_with_cuts_and_restarts(tmp_path: Path, seed: int, policy: str) -> None:
    run(trial(seed, tmp_path, 200, 3, policy))


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("policy", ["covering", "flood", "subsumption", "merging"])
def test_for_long(tmp_path: Path, policy: str) -> None:
    for seed in range(10, 16):
        for restarts in (0, 6):
            folder: Any = tmp_path / f"{seed} {restarts}"
            folder.mkdir()
            run(trial(seed, folder, 600, restarts, policy))
