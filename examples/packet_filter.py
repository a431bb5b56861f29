"""A packet filter: which rule of an access list decides what happens to a packet? Rules are boxes in 5 dimensions.

    python examples/packet_filter.py                     # a few hundred made-up rules
    python examples/packet_filter.py acl1_10k            # a ClassBench file, plain or .gz

A line of ClassBench's filter sets is: source and destination prefix, source and destination ports, protocol and mask,
and flags, which are not used here:

    @176.19.181.33/32  90.145.23.162/32  0 : 65535  1550 : 1550  0x06/0xFF  0x0000/0x0200

The first rule that matches decides. So a rule's score is minus its line number, its constraints add nothing to it
(weights of 0), and `top_k(packet, 1)` finds the rule.
"""

from __future__ import annotations

import gzip
import random
import re
import sys
import time
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path

import earmark

LINE = re.compile(r"@(\S+)\s+(\S+)\s+(\d+) : (\d+)\s+(\d+) : (\d+)\s+0x(\w+)/0x(\w+)")
PACKETS = 10_000


def subscription(number: int, line: str) -> earmark.Subscription:
    """Return a rule as a subscription, without the parts that every packet satisfies."""
    found = LINE.match(line)
    if found is None:
        raise SystemExit(f"not a rule of ClassBench: {line!r}")
    source, target, *ports = found.groups()[:6]
    protocol, mask = (int(part, 16) for part in found.groups()[6:])
    parts = dict[str, str]()
    for name, prefix in (("src", source), ("dst", target)):
        network = IPv4Network(prefix, strict=False)
        if network.prefixlen:
            parts[name] = f"{name} BETWEEN {int(network[0])} AND {int(network[-1])}"
    for name, (low, high) in (("sport", map(int, ports[:2])), ("dport", map(int, ports[2:]))):
        if (low, high) != (0, 65535):
            parts[name] = f"{name} = {low}" if low == high else f"{name} BETWEEN {low} AND {high}"
    if mask:
        parts["proto"] = f"proto = {protocol}"
    condition = " AND ".join(parts.values()) or "TRUE"
    return earmark.Subscription(number, condition, dict.fromkeys(parts, 0.0), -float(number))


def lines(path: str | None) -> Iterator[str]:
    """Return the rules of a file, or made-up ones that look like them."""
    if path is not None:
        content = Path(path).read_bytes()
        text = (gzip.decompress(content) if path.endswith(".gz") else content).decode()
        yield from (line for line in text.splitlines() if line.strip())
        return
    rng = random.Random(5)
    for _ in range(400):
        hosts = [f"{rng.randrange(60, 64)}.{rng.randrange(4)}.0.{rng.randrange(256)}" for _ in range(2)]
        ends = [f"{host}/{rng.choice((0, 8, 16, 24, 32))}" for host in hosts]
        port = rng.choice((53, 80, 443, 1521, 5555))
        ports = rng.choice((f"{port} : {port}", "0 : 65535", "1024 : 65535"))
        yield f"@{ends[0]}\t{ends[1]}\t0 : 65535\t{ports}\t0x{rng.choice((6, 17)):02x}/0xFF\t0x0000/0x0000\t"
    yield "@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\t"


def main() -> None:
    rules = list(lines(sys.argv[1] if len(sys.argv) > 1 else None))
    matcher = earmark.Matcher("blocks", attributes=dict.fromkeys(("src", "dst", "sport", "dport", "proto"), "integer"))
    matcher.add_many([subscription(number, line) for number, line in enumerate(rules)])
    print(f"{len(rules):,} rules")

    rng = random.Random(1)
    packets = [packet(rules[rng.randrange(len(rules))], rng) for _ in range(PACKETS)]
    matcher.top_k_many(packets[:2], 1)  # the first call compiles
    begun = time.perf_counter()
    decided = matcher.top_k_many(packets, 1)
    took = time.perf_counter() - begun
    print(f"{len(packets):,} packets, {decided.num_rows:,} decided, {took / len(packets) * 1e6:.0f} µs per packet")
    first = packets[decided["event"][0].as_py()]
    rule = decided["subscription"][0].as_py()
    print(f"a packet {first}\nis decided by rule {rule}: {matcher[rule].condition}")
    print(f"all that match it, in order: {matcher.match(first)}")


def packet(line: str, rng: random.Random) -> dict[str, int]:
    """Make up a packet that a rule matches."""
    found = LINE.match(line)
    assert found is not None
    source, target, *ports = found.groups()[:6]
    ends = [IPv4Network(prefix, strict=False) for prefix in (source, target)]
    src, dst = (int(rng.randint(int(one[0]), int(one[-1]))) for one in ends)
    sport, dport = rng.randint(*map(int, ports[:2])), rng.randint(*map(int, ports[2:]))
    return {"src": src, "dst": dst, "sport": sport, "dport": dport, "proto": int(found[7], 16) or 6}


if __name__ == "__main__":
    main()
