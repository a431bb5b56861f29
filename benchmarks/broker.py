"""One broker on one core: subscription messages and publications per second through `receive`.

    python benchmarks/broker.py [--quick] [--policy covering] [--json FILE]

A broker has four neighbours, which want 100,000 conditions of the MICS workloads (three attributes, 256 cells, ranges
of 16; uniform and Zipf), a quarter each. Each neighbour acknowledges what it is told, once per batch.

load           all Want messages, in batches of 1,000 through `receive_many`
changes        at 100,000: Want and Unwant by turns, in batches of 1,000
publications   from all neighbours, in batches of 1,000; where each goes is compared with one scan of a sample
one by one     `receive`, message by message; without a bar

Bars: 20,000 subscription messages per second (load, changes) and 50,000 publications. Exit code 1 when one is missed or
an answer is wrong. Times are processor time of one thread.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from earmark import Matcher
from earmark.overlay.broker import Broker, Party
from earmark.overlay.messages import Hello, InForce, Message, Publication, Resynchronise, Synchronised, Unwant, Want
from earmark.overlay.simulation.content import Content, content_of
from results import Figure, Result

NEIGHBOURS = 4
BATCH = 1_000
SUBSCRIPTION_BAR, PUBLICATION_BAR = 20_000, 50_000
PARTIES = [Party("broker", f"n{number}") for number in range(NEIGHBOURS)]
Received = list[tuple[Message, Party]]


class Driver:
    """A broker, and the neighbours' counters."""

    def __init__(self, policy: str) -> None:
        self.broker = Broker("hub", policy=policy, neighbours=[party.name for party in PARTIES])
        self.number = [2] * NEIGHBOURS
        self.sent = 0
        for party in PARTIES:
            self.broker.connect(party.name)
        for party in PARTIES:
            for message in (Hello(party.name, 1, policy, 0), Resynchronise(1, 0), Synchronised(2)):
                self.broker.receive(message, party)

    def next(self, neighbour: int) -> int:
        """The next number of what a neighbour tells."""
        self.number[neighbour] += 1
        return self.number[neighbour]

    def want(self, place: int, condition: str) -> tuple[Message, Party]:
        """A neighbour's Want; the label is the place."""
        neighbour = place % NEIGHBOURS
        return Want(self.next(neighbour), place, condition), PARTIES[neighbour]

    def unwant(self, place: int) -> tuple[Message, Party]:
        """A neighbour's Unwant."""
        neighbour = place % NEIGHBOURS
        return Unwant(self.next(neighbour), place), PARTIES[neighbour]

    def run(self, messages: Received, batch: int = BATCH) -> float:
        """Messages per second of processor time."""
        begun = time.process_time()
        for first in range(0, len(messages), batch):
            part = messages[first : first + batch]
            sent = self.broker.receive(*part[0]) if batch == 1 else self.broker.receive_many(part)
            self.sent += len(sent)
            last = {party: message.number for party, message in sent if isinstance(message, Want | Unwant)}
            if last:
                self.broker.receive_many([(InForce(number), party) for party, number in last.items()])
        return len(messages) / (time.process_time() - begun)


def publications(content: Content, run: int, count: int) -> Received:
    """Publications of one origin, from the neighbours by turns."""
    events = content.events
    return [
        (Publication("elsewhere", run, number + 1, dict(events[number % len(events)])), PARTIES[number % NEIGHBOURS])
        for number in range(count)
    ]


def check(driver: Driver, content: Content, living: Sequence[int], run: int) -> bool:
    """Whether publications go exactly to the neighbours that want them, by one scan."""
    sample = publications(content, run, 500)
    matcher = Matcher(index="scan")
    matcher.add_many([(place, content.conditions[place]) for place in living], progress=False)
    sent = {(message.number, party) for party, message in driver.broker.receive_many(sample)}
    right = set()
    for message, source in sample:
        wanting = {PARTIES[place % NEIGHBOURS] for place in matcher.match(message.event)}
        right |= {(message.number, party) for party in wanting if party != source}
    return sent == right


def measure(name: str, policy: str, count: int, published: int) -> tuple[list[Figure], bool]:
    """All figures of one workload."""
    extra = count // 10
    content = content_of(name, count + extra, min(published, 10_000))
    warm = Driver(policy)
    warm.run([warm.want(place, content.conditions[place]) for place in range(2_000)])
    warm.run([warm.unwant(place) for place in range(1_000)])
    warm.run(publications(content, 1, 2_000))

    driver = Driver(policy)
    load = driver.run([driver.want(place, content.conditions[place]) for place in range(count)])
    told = driver.sent
    changes: Received = []
    for place in range(extra):
        changes += [driver.want(count + place, content.conditions[count + place]), driver.unwant(place)]
    changed = driver.run(changes)
    driver.run(publications(content, 1, BATCH))  # the table takes in what has changed
    rate = driver.run(publications(content, 2, published))
    right = check(driver, content, range(extra, count + extra), 3)
    singles = driver.run([driver.unwant(extra + place) for place in range(BATCH)], 1)
    single = driver.run(publications(content, 4, BATCH), 1)

    print(f"\n{name}, {policy}: {count:,} subscriptions from {NEIGHBOURS} neighbours, {told:,} messages to them")
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
    print(f"  {'where publications go':26} {'as one scan says' if right else 'WRONG'}")
    figures = [Figure(name, count, policy, what, "µs/message", [1e6 / value]) for what, value, _ in bars]
    return figures, good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the subscriptions and publications")
    parser.add_argument("--policy", default="covering", choices=["flood", "covering"])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args()
    count, published = (10_000, 10_000) if options.quick else (100_000, 50_000)
    figures: list[Figure] = []
    good = True
    for name in ("mics-uniform", "mics-zipf"):
        more, held = measure(name, options.policy, count, published)
        figures += more
        good &= held
    print(f"\n{'all bars held' if good else 'A BAR WAS MISSED'}")
    if options.json:
        Result("broker", {"quick": options.quick, "policy": options.policy}, figures).write(options.json)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
