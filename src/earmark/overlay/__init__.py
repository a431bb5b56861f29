"""Brokers: content-based routing over an acyclic overlay of brokers, with clients at its edge.

messages.py      what clients and brokers say to each other, and its binary form
link.py          one end of a reliable, ordered link over a carrier that is cut, loses, repeats or reorders
transitions.py   what may be said when, and what comes of it, as data
broker.py        one broker: a state machine without sockets, clocks or threads
routing.py       who wants what, who is told, what is in force
offers.py        advertisements: where an entry need be told at all
neighbour.py     what is kept about one neighbour
publications.py  publications on their way: once, held, sent
delivery.py      local clients: exact matches, the k best, queues
table.py         conditions by number, matched through the engine
driver.py        a broker with its links and its file, without sockets
remote.py        a neighbour or a client, as a driver knows it
store.py         what a broker remembers over restarts
access.py        addresses, the shared token, TLS
channel.py       bytes on a stream: packets, the handshake, frames
connection.py    one stream over asyncio, and a link carried by it
server.py        a broker that listens and dials
client.py        clients, with asyncio
blocking.py      clients, without it
refusals.py      what was refused, and who hears of it
policies/        what neighbours are told: flood, covering, …
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from earmark.overlay.blocking import Client
    from earmark.overlay.broker import Broker
    from earmark.overlay.client import AsyncClient, RequestRefused
    from earmark.overlay.server import BrokerServer, ask_drop, ask_rekey, ask_status

__all__ = ["AsyncClient", "Broker", "BrokerServer", "Client", "RequestRefused", "ask_drop", "ask_rekey", "ask_status"]

_HOMES = {
    "AsyncClient": "client",
    "Broker": "broker",
    "BrokerServer": "server",
    "Client": "blocking",
    "RequestRefused": "client",
    "ask_drop": "server",
    "ask_rekey": "server",
    "ask_status": "server",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is first needed; without msgspec, say how to install it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as problem:
        if problem.name != "msgspec":
            raise
        raise EarmarkError("brokers need the package msgspec: pip install 'earmark[overlay]'") from None
