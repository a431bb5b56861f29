"""Brokers: content-based routing over an acyclic overlay of brokers, with clients at its edge.

messages.py      what clients and brokers say to each other, and its binary form
link.py          one end of a reliable, ordered link over a carrier that is cut, loses, repeats or reorders
transitions.py   what may be said when, and what comes of it, as data
broker.py        one broker: a state machine without sockets, clocks or threads
routing.py       who wants what, who is told, what is in force
neighbour.py     what is kept about one neighbour
publications.py  publications on their way: once, held, sent
delivery.py      local clients: exact matches, the k best, queues
table.py         conditions by number, matched through the engine
driver.py        a broker with its links and its file, without sockets
store.py         what a broker remembers over restarts
access.py        addresses, the shared token, TLS
channel.py       bytes on a stream: packets, the handshake, frames
connection.py    one stream over asyncio, and a link carried by it
server.py        a broker that listens and dials
client.py        clients, with and without asyncio
policies/        what neighbours are told: flood, covering, …
"""
