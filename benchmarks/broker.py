"""One broker on one core: subscription messages and publications per second through `receive`.

    python benchmarks/broker.py [--quick] [--policy covering] [--most 16] [--json FILE]

A broker has four neighbours, which want 100,000 conditions of the MICS workloads (three attributes, 256 cells, ranges
of 16; uniform and Zipf), a quarter each. Each neighbour acknowledges what it is told, once per batch.

load           all Want messages, in batches of 1,000 through `receive_many`
changes        at 100,000: Want and Unwant by turns, in batches of 1,000
publications   from all neighbours, in batches of 1,000; where each goes is compared with one scan of a sample
one by one     `receive`, message by message; without a bar

Policies are those of the simulator's variants. Under one that speaks of ranges, a neighbour tells the ranges of each
condition, about as many as `--most` for the wider ones: more of them are more work, and fewer let more publications
through in vain. A neighbour's ranges are a set, so those that others of its conditions share are told again before the
publications are compared: they must go at least to the neighbours that want them, and the share in vain is printed.

Bars: 20,000 subscription messages per second (load, changes) and 50,000 publications. Exit code 1 when one is missed or
an answer is wrong. Times are processor time of one thread, with the cyclic garbage collector on: `receive_many` itself
holds it back during a batch.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from earmark import Matcher
from earmark.overlay.broker import Broker, Party
from earmark.overlay.messages import (
    Hello,
    InForce,
    Message,
    Publication,
    Resynchronise,
    Synchronised,
    Unwant,
    UnwantRanges,
    Want,
    WantRanges,
)
from earmark.overlay.simulation.content import Content, content_of
from earmark.overlay.simulation.variants import VARIANTS, variant_of
from earmark.overlay.space import MOST_RANGES, Grid, Space
from results import Figure, Result

NEIGHBOURS = 4
BATCH = 1_000
SUBSCRIPTION_BAR, PUBLICATION_BAR = 20_000, 50_000
PARTIES = [Party("broker", f"n{number}") for number in range(NEIGHBOURS)]
TOLD = (Want, Unwant, WantRanges, UnwantRanges)
Received = list[tuple[Message, Party]]


class Driver:
    """A broker, and the neighbours' counters."""

    def __init__(self, policy: str, options: Mapping[str, Any], content: Content) -> None:
        self.content = content
        self.broker = Broker("hub", policy=policy, options=options, neighbours=[party.name for party in PARTIES])
        described = options.get("space")
        self.space = described.number if isinstance(described, Space) else 0
        self.ranges = ranges_of(content, options) if self.space else []
        self.number = [2] * NEIGHBOURS
        self.sent = 0
        for party in PARTIES:
            self.broker.connect(party.name)
        for party in PARTIES:
            hello = Hello(party.name, 1, policy, self.space)
            for message in (hello, Resynchronise(1, self.space), Synchronised(2)):
                self.broker.receive(message, party)

    def next(self, neighbour: int) -> int:
        """The next number of what a neighbour tells."""
        self.number[neighbour] += 1
        return self.number[neighbour]

    def want(self, place: int) -> tuple[Message, Party]:
        """A neighbour's Want; the label is the place."""
        neighbour = place % NEIGHBOURS
        number, party = self.next(neighbour), PARTIES[neighbour]
        if self.space:
            return WantRanges(number, self.space, self.ranges[place]), party
        return Want(number, place, self.content.conditions[place]), party

    def unwant(self, place: int) -> tuple[Message, Party]:
        """A neighbour's Unwant."""
        neighbour = place % NEIGHBOURS
        number, party = self.next(neighbour), PARTIES[neighbour]
        if self.space:
            return UnwantRanges(number, self.space, self.ranges[place]), party
        return Unwant(number, place), party

    def run(self, messages: Received, batch: int = BATCH) -> float:
        """Messages per second of the broker's processor time; what neighbours do with its answers is not counted."""
        gc.collect()
        seconds, clock = 0.0, time.process_time
        for first in range(0, len(messages), batch):
            part = messages[first : first + batch]
            begun = clock()
            sent = self.broker.receive(*part[0]) if batch == 1 else self.broker.receive_many(part)
            seconds += clock() - begun
            self.sent += len(sent)
            last = {party: message.number for party, message in sent if isinstance(message, TOLD)}
            answers: Received = [(InForce(number), party) for party, number in last.items()]
            begun = clock()
            if answers:
                self.broker.receive_many(answers)
            seconds += clock() - begun
        return len(messages) / seconds


def ranges_of(content: Content, options: Mapping[str, Any]) -> list[tuple[tuple[int, int], ...]]:
    """The ranges of all conditions."""
    grid, most = Grid(options["space"]), options.get("most", MOST_RANGES)
    return [tuple(one.pairs()) for one in grid.ranges(content.conditions, most)]


def publications(content: Content, run: int, count: int) -> Received:
    """Publications of one origin, from the neighbours by turns."""
    events = content.events
    return [
        (Publication("elsewhere", run, number + 1, dict(events[number % len(events)])), PARTIES[number % NEIGHBOURS])
        for number in range(count)
    ]


def check(driver: Driver, content: Content, living: Sequence[int], run: int) -> tuple[bool, float]:
    """Whether publications go exactly to the neighbours that want them, by one scan; and how many go in vain.

    Under ranges, whether they go at least to those.
    """
    sample = publications(content, run, 500)
    matcher = Matcher(index="scan")
    matcher.add_many([(place, content.conditions[place]) for place in living], progress=False)
    sent = {(message.number, party) for party, message in driver.broker.receive_many(sample)}
    right = set()
    for message, source in sample:
        wanting = {PARTIES[place % NEIGHBOURS] for place in matcher.match(message.event)}
        right |= {(message.number, party) for party in wanting if party != source}
    vain = len(sent - right) / max(len(sent), 1)
    return right <= sent and (vain == 0 or driver.space > 0), vain


def measure(name: str, variant: str, most: int, count: int, published: int) -> tuple[list[Figure], bool]:
    """All figures of one workload."""
    extra = count // 10
    content = content_of(name, count + extra, min(published, 10_000))
    policy, options = variant_of(variant, content, {})
    if "space" in options:
        options["most"] = most
    driver = Driver(policy, options, content)
    warm = Driver(policy, options, content)
    warm.run([warm.want(place) for place in range(2_000)])
    warm.run([warm.unwant(place) for place in range(1_000)])
    warm.run(publications(content, 1, 2_000))

    load = driver.run([driver.want(place) for place in range(count)])
    told = driver.sent
    changes: Received = []
    for place in range(extra):
        changes += [driver.want(count + place), driver.unwant(place)]
    changed = driver.run(changes)
    driver.run(publications(content, 1, BATCH))  # the table takes in what has changed
    rate = driver.run(publications(content, 2, published))
    if driver.space:  # what others of the same neighbour ask for too went with what was withdrawn
        driver.run([driver.want(place) for place in range(extra, count + extra)])
    right, vain = check(driver, content, range(extra, count + extra), 3)
    singles = driver.run([driver.unwant(extra + place) for place in range(BATCH)], 1)
    single = driver.run(publications(content, 4, BATCH), 1)

    print(f"\n{name}, {variant}: {count:,} subscriptions from {NEIGHBOURS} neighbours, {told:,} messages to them")
    bars = (
        ("load", load, SUBSCRIPTION_BAR),
        ("changes", changed, SUBSCRIPTION_BAR),
        ("publications", rate, PUBLICATION_BAR),
        ("unsubscribes, one by one", singles, 0),
        ("publications, one by one", single, 0),
    )
    good = right
    for what, per_second, bar in bars:
        verdict = "" if not bar else f"   bar {bar:,}: {'held' if per_second >= bar else 'MISSED'}"
        print(f"  {what:26} {per_second:10,.0f} per second{verdict}")
        good &= per_second >= bar
    said = "as one scan says" if not vain else f"to all that one scan names, {vain:.1%} in vain"
    print(f"  {'where publications go':26} {said if right else 'WRONG'}")
    if driver.space:
        ranges = sum(map(len, driver.ranges)) / len(driver.ranges)
        print(f"  {'ranges per message':26} {ranges:10.1f}")
    figures = [Figure(name, count, variant, what, "µs/message", [1e6 / value]) for what, value, _ in bars]
    return figures, good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the subscriptions and publications")
    parser.add_argument("--policy", default="covering", choices=VARIANTS)
    parser.add_argument("--most", type=int, default=16, help="ranges of a clause, under policies of ranges")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args()
    count, published = (10_000, 10_000) if options.quick else (100_000, 50_000)
    figures: list[Figure] = []
    good = True
    for name in ("mics-uniform", "mics-zipf"):
        more, held = measure(name, options.policy, options.most, count, published)
        figures += more
        good &= held
    print(f"\n{'all bars held' if good else 'A BAR WAS MISSED'}")
    if options.json:
        Result("broker", {"quick": options.quick, "policy": options.policy, "most": options.most}, figures).write(
            options.json
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
