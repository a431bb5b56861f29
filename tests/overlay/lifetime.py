"""Random lives of a small network, judged by one central scan.

Clients subscribe, unsubscribe and publish; messages arrive one by one in any order between channels; channels are
reset, brokers restart, clients go away, return, or are forgotten, neighbours are dropped. Clients called c1 prefer
their BEST matches, and few notifications to wait for them. Whenever everything has settled:

- each client has had exactly one notification for each publication that matches one of its subscriptions that it knew
  to be in force when the publication was sent, naming exactly these; where a subscription was not known to be in force,
  or its withdrawal was asked before everything had settled, either is right
- what was inside a broker that ended may be lost, and what came by when a neighbour had been dropped; a client with a
  short queue misses no more than it is told; nothing comes twice, and nothing comes that does not match
- every request is in force, no entry is stale, and each broker has from each neighbour what the neighbour's policy says
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.overlay.network import Network

from earmark import Interval
from earmark.overlay.messages import Advertise, Notify, Publication, Refused, Shed, Unadvertise
from earmark.overlay.policies import Tell
from earmark.overlay.transitions import State

SIZE = 8
TYPES = {"t": "timestamp"}
"""Declared in all brokers; other types are learned."""
NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)
OFFSETS = (0, 2, -5, 14)
BEST, QUEUE = 2, 3
"""What clients called c1 prefer."""
WEIGHTY = 100.0
"""More than the constraints of one subscription can add to its score: the newer one is the better match."""
Holds = Callable[[Mapping[str, Any]], bool]


class Wanted(NamedTuple):
    """A condition, and the same in Python."""

    text: str
    holds: Holds

    def matches(self, event: Mapping[str, Any]) -> bool:
        """Whether it holds for some values inside the intervals of an event."""
        return any(map(self.holds, _rows(event)))

    def takes(self, event: Mapping[str, Any]) -> bool:
        """Whether it holds for all values inside the intervals of an event."""
        return all(map(self.holds, _rows(event)))


def _rows(event: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """An event with points for the interval of x: whole numbers and halves, between which no condition changes."""
    x = event.get("x")
    if isinstance(x, Interval):
        yield from ({**event, "x": twice / 2} for twice in range(2 * x.lo, 2 * x.hi + 1))
    else:
        yield event


def _between(name: str, low: int, high: int) -> Wanted:
    return Wanted(
        f"{name} BETWEEN {low} AND {high}", lambda event: event.get(name) is not None and low <= event[name] <= high
    )


def _both(one: Wanted, other: Wanted) -> Wanted:
    return Wanted(f"{one.text} AND {other.text}", lambda event: one.holds(event) and other.holds(event))


def _either(one: Wanted, other: Wanted) -> Wanted:
    return Wanted(f"({one.text}) OR ({other.text})", lambda event: one.holds(event) or other.holds(event))


def _ranges(name: str) -> st.SearchStrategy[Wanted]:
    return st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(lambda pair: _between(name, min(pair), max(pair)))


def _written(half_hours: int, offset: int) -> str:
    """A moment around new year, as the clock of some zone shows it: as a string it sorts differently."""
    moment = NEW_YEAR + timedelta(minutes=30 * half_hours)
    return moment.astimezone(timezone(timedelta(hours=offset))).isoformat(" ")


def _since(low: int, high: int, offsets: tuple[int, int]) -> Wanted:
    """Within a span of time; open at its end where it would be empty."""
    first, last = (NEW_YEAR + timedelta(minutes=30 * end) for end in (low, high))
    text = f"t >= '{_written(low, offsets[0])}'"
    if low >= high:
        return Wanted(text, lambda event: event.get("t") is not None and first <= datetime.fromisoformat(event["t"]))
    return Wanted(
        f"{text} AND t < '{_written(high, offsets[1])}'",
        lambda event: event.get("t") is not None and first <= datetime.fromisoformat(event["t"]) < last,
    )


_half_hours, _offsets = st.integers(-SIZE, SIZE), st.sampled_from(OFFSETS)
times = st.builds(_since, _half_hours, _half_hours, st.tuples(_offsets, _offsets))
simple = st.one_of(_ranges("x"), _ranges("y"), st.tuples(_ranges("x"), _ranges("y")).map(lambda two: _both(*two)))
conditions = st.one_of(
    simple,
    simple,
    times,
    times,
    st.tuples(simple, times).map(lambda two: _both(*two)),
    st.tuples(simple, simple).map(lambda two: _either(*two)),
    st.just(Wanted("x < 9007199254740993", lambda event: event.get("x") is not None)),
    st.just(Wanted("TRUE", lambda event: True)),
    st.just(Wanted("x IS NULL", lambda event: event.get("x") is None)),
    st.just(Wanted("s = 'a'", lambda event: event.get("s") == "a")),
)
_intervals = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(lambda pair: Interval(*sorted(pair)))
events = st.fixed_dictionaries(
    {"x": st.one_of(st.none(), st.integers(0, SIZE), _intervals), "y": st.integers(0, SIZE)},
    optional={"s": st.sampled_from(["a", "b"]), "t": st.builds(_written, _half_hours, _offsets)},
)
trees = st.lists(st.integers(0, 100), min_size=1, max_size=5)
"""Node i + 1 hangs on node (number modulo i + 1)."""
numbers = st.integers(0, 1_000)


class Subscription:
    """What a client asked for, and what it knows of it."""

    def __init__(self, client: str, id: int, wanted: Wanted, number: int) -> None:
        self.client, self.id, self.wanted, self.number = client, id, wanted, number
        self.withdrawn: int | None = None
        """The number of the request to withdraw it."""


class Advertisement:
    """What a client has advertised."""

    def __init__(self, client: str, id: int, wanted: Wanted, number: int) -> None:
        self.client, self.id, self.wanted, self.number = client, id, wanted, number
        self.is_withdrawn = False


class Published(NamedTuple):
    """A publication, and whose subscriptions must or may be notified of it."""

    event: dict[str, Any]
    must: set[tuple[str, int]]
    may: set[tuple[str, int]]


class Lifetime(RuleBasedStateMachine):
    """One network under one policy."""

    policy: str = "flood"
    options: Mapping[str, object] = {}
    settings: Mapping[str, Any] = {}

    @initialize(tree=trees, seed=numbers)
    def start(self, tree: list[int], seed: int) -> None:
        edges = [(f"b{number % (place + 1)}", f"b{place + 1}") for place, number in enumerate(tree)]
        self.network = Network(edges, self.policy, self.options, seed, attributes=TYPES, **self.settings)
        self.advertisements: list[Advertisement] = []
        self.names = sorted(self.network.brokers)
        self.subscriptions: list[Subscription] = []
        self.publications: dict[int, Published] = {}
        self.unsettled: set[int] = set()
        self.excused: set[int] = set()
        """Publications that were inside a broker that ended."""
        self.away: set[str] = set()
        self.preferring: set[str] = set()
        self.missing: Counter[str] = Counter()
        """Publications that clients were not notified of, though they should have been."""
        self.untold: Counter[str] = Counter()
        """Notifications that clients were not told of, since the broker ended that had shed them."""
        self.has_dropped = False
        self.now = 0.0

    def client(self, number: int) -> str:
        return f"c{number % 2}@{self.names[number % len(self.names)]}"

    # --- what clients do -----------------------------------------------------------------------------------------

    @rule(number=numbers, wanted=conditions)
    def subscribe(self, number: int, wanted: Wanted) -> None:
        client, id = self.client(number), len(self.subscriptions)
        self.return_(client)
        self.prefer(client)
        asked = self.network.subscribe(client, id, wanted.text, score=WEIGHTY * id)
        made = Subscription(client, id, wanted, asked)
        self.subscriptions.append(made)
        for number in self.unsettled:  # it may still come by
            if wanted.matches(self.publications[number].event):
                self.publications[number].may.add((client, id))

    def prefer(self, client: str) -> None:
        if client.startswith("c1") and client not in self.preferring:
            self.preferring.add(client)
            self.network.prefer(client, k=BEST, queue=QUEUE)

    @precondition(lambda self: any(one.withdrawn is None for one in self.subscriptions))
    @rule(number=numbers)
    def unsubscribe(self, number: int) -> None:
        live = [one for one in self.subscriptions if one.withdrawn is None]
        gone = live[number % len(live)]
        self.return_(gone.client)
        gone.withdrawn = self.network.unsubscribe(gone.client, gone.id)
        self.relax({(gone.client, gone.id)})

    def relax(self, keys: set[tuple[str, int]]) -> None:
        """What is on its way may come to these subscriptions or not."""
        for place in self.unsettled:
            published = self.publications[place]
            published.may.update(published.must & keys)
            published.must.difference_update(keys)

    @rule(number=numbers)
    def forget(self, number: int) -> None:
        client = self.client(number)
        home = client.rpartition("@")[2]
        known = self.network.brokers[home]._clients.get(client)
        self.untold[client] += 0 if known is None else known.shed
        self.network.send(home, self.network.brokers[home].forget(client))
        self.preferring.discard(client)
        self.away.discard(client)
        for one in self.subscriptions:
            if one.client == client and one.withdrawn is None:
                one.withdrawn = self.network.numbers[client] + 1  # in force with whatever it asks for next
        self.relax({(one.client, one.id) for one in self.subscriptions if one.client == client})
        for offer in self.offers_of(client):
            offer.is_withdrawn = True
        if client in self.network.numbers:
            self.network.send(home, self.network.brokers[home].attach(client))

    @rule(number=numbers, event=events)
    def publish(self, number: int, event: dict[str, Any]) -> None:
        client, place = self.client(number), len(self.publications)
        self.return_(client)
        is_safe = True
        if self.settings.get("advertisements"):
            offered = [one for one in self.offers_of(client) if one.wanted.takes(event)]
            if not offered:
                refused = self.network.publish(client, {**event, "n": place})
                assert any(isinstance(one, Refused) and one.number == refused for one in self.network.heard[client])
                return
            is_safe = any(self.network.in_force(client) >= one.number for one in offered)
        must, may = set(), set()
        for one in self.subscriptions:
            known = self.network.in_force(one.client)
            if one.wanted.matches(event):
                if one.withdrawn is not None and known >= one.withdrawn:
                    continue
                is_known = one.withdrawn is None and known >= one.number and is_safe
                (must if is_known else may).add((one.client, one.id))
        self.publications[place] = Published(event, must, may)
        self.unsettled.add(place)
        if self.has_dropped:
            self.excused.add(place)
        self.network.publish(client, {**event, "n": place})

    def offers_of(self, client: str) -> list[Advertisement]:
        return [one for one in self.advertisements if one.client == client and not one.is_withdrawn]

    @precondition(lambda self: self.settings.get("advertisements"))
    @rule(number=numbers, wanted=conditions)
    def advertise(self, number: int, wanted: Wanted) -> None:
        client, id = self.client(number), len(self.advertisements)
        self.return_(client)
        asked = self.network.request(client, Advertise, id, wanted.text)
        self.advertisements.append(Advertisement(client, id, wanted, asked))

    @precondition(lambda self: any(not one.is_withdrawn for one in self.advertisements))
    @rule(number=numbers)
    def unadvertise(self, number: int) -> None:
        live = [one for one in self.advertisements if not one.is_withdrawn]
        gone = live[number % len(live)]
        self.return_(gone.client)
        gone.is_withdrawn = True
        self.network.request(gone.client, Unadvertise, gone.id)

    def return_(self, client: str) -> None:
        if client in self.away:
            self.away.remove(client)
            home = client.rpartition("@")[2]
            self.network.send(home, self.network.brokers[home].attach(client))

    @rule(number=numbers)
    def leave(self, number: int) -> None:
        client = self.client(number)
        if client in self.network.numbers and client not in self.away:
            self.away.add(client)
            home = client.rpartition("@")[2]
            self.network.send(home, self.network.brokers[home].detach(client))

    # --- what happens to them ------------------------------------------------------------------------------------

    @rule(steps=st.integers(1, 20))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            self.network.step()

    @rule()
    def tick(self) -> None:
        self.now += 0.001
        self.network.tick(self.now)

    @rule(number=numbers)
    def cut(self, number: int) -> None:
        a, b = self.network.edges[number % len(self.network.edges)]
        if self.network.is_connected(a, b):
            self.network.cut(a, b)

    @rule(number=numbers)
    def connect(self, number: int) -> None:
        a, b = self.network.edges[number % len(self.network.edges)]
        if not self.network.is_connected(a, b):
            self.network.connect(a, b)

    @rule(number=numbers)
    def drop(self, number: int) -> None:
        a, b = self.network.edges[number % len(self.network.edges)]
        if not self.network.is_connected(a, b) and b in self.network.brokers[a].neighbours:
            self.network.send(a, self.network.brokers[a].drop(b))
            self.excused |= self.unsettled
            self.has_dropped = True

    @rule(number=numbers)
    def restart(self, number: int) -> None:
        name = self.names[number % len(self.names)]
        broker = self.network.brokers[name]
        queues = [queue for (source, _), queue in self.network.channels.items() if source == name]
        inside = [message for queue in queues for message in queue]
        inside += [message for link in broker._router.links.values() for message in link.held]
        inside += [waiting for client in broker._clients for waiting, _ in client.waiting.values()]
        self.excused |= {one.event["n"] for one in inside if isinstance(one, Publication | Notify)}
        self.untold.update({client.name: client.shed for client in broker._clients})
        self.network.restart(name)
        for client in [client for client in self.preferring if client.endswith(f"@{name}")]:
            self.network.send(name, self.network.brokers[name].attach(client))
            self.preferring.remove(client)
            self.prefer(client)
        self.away -= {client for client in self.away if client.endswith(f"@{name}")}
        for one in self.advertisements:  # this network keeps the subscriptions of a broker, not its advertisements
            if one.client.endswith(f"@{name}") and not one.is_withdrawn:
                self.network.send(name, self.network.brokers[name].attach(one.client))
                one.number = self.network.request(one.client, Advertise, one.id, one.wanted.text)

    @rule()
    def settle(self) -> None:
        self.network.reconnect()
        for _ in range(1_000):
            self.network.run()
            self.now += 0.001
            self.network.tick(self.now)
            if not any(self.network.channels.values()) and self.is_quiet():
                break
        for client in [*self.away]:
            self.return_(client)
        self.has_dropped = False
        self.judge()
        self.check_tables()

    def is_quiet(self) -> bool:
        """Whether no broker has something that it spreads over time."""
        links = [(broker, name) for broker in self.network.brokers.values() for name in broker._router.links]
        return not any(broker._router.policy.status(name).get("pending") for broker, name in links)

    def teardown(self) -> None:
        if hasattr(self, "network"):
            self.settle()

    # --- judging -------------------------------------------------------------------------------------------------

    def got(self) -> dict[int, set[tuple[str, int]]]:
        """By publication, whose subscriptions were notified of it; nobody twice."""
        got: dict[int, set[tuple[str, int]]] = {place: set() for place in self.publications}
        for client in self.network.heard:
            seen: set[int] = set()
            for notification in self.network.notifications(client):
                place = notification.event["n"]
                assert place not in seen, f"{client} is notified of {place} twice"
                seen.add(place)
                assert client not in self.preferring or len(notification.ids) <= BEST
                assert {**self.publications[place].event, "n": place} == notification.event
                got[place] |= {(client, id) for id in notification.ids}
        return got

    def judge(self) -> None:
        got = self.got()
        for place in self.unsettled - self.excused:
            published = self.publications[place]
            for client in {client for client, _ in published.must}:
                must, named = ({id for owner, id in keys if owner == client} for keys in (published.must, got[place]))
                if client in self.preferring and named:
                    is_right = len(named) >= min(BEST, len(must)) and max(must - named, default=-1) < min(named)
                else:
                    is_right = must <= named
                assert is_right or not named, (
                    f"publication {place} {published.event} names {named} of {must} to {client}"
                )
                self.missing[client] += not is_right
        for client, count in self.missing.items():
            shed = sum(one.count for one in self.network.heard[client] if isinstance(one, Shed)) + self.untold[client]
            assert count <= shed, f"{client} misses {count} publications, and was told of {shed}"
        self.unsettled.clear()

    def check_tables(self) -> None:
        for name, broker in self.network.brokers.items():
            for link in broker._router.links.values():
                assert link.state == State.UP and not link.stale and not link.held and not link.asked and not link.owes
                told = self.network.brokers[link.name]._router.policy.told(name)
                wants = {label: entry.condition for label, entry in link.wants.items()}
                assert wants == {one.label: one.condition for one in told if isinstance(one, Tell)}
        for client, number in self.network.numbers.items():
            home = self.network.brokers[client.rpartition("@")[2]]
            known = home._clients.get(client)
            assert known is None or not known.asked, f"{client} still waits for {known.asked}"
            assert self.network.in_force(client) <= number

    @invariant()
    def nothing_is_wrong(self) -> None:
        if hasattr(self, "network"):
            for place, got in self.got().items():
                wrong = got - self.publications[place].must - self.publications[place].may
                assert not wrong, f"publication {place} {self.publications[place].event} came to {wrong}"
