"""Subsumption and merging in networks: what is told covers what is wanted, shrinks again, and depends on no order."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from tests.overlay.lifetime import Lifetime
from tests.overlay.network import Network
from tests.overlay.ranges import IN_RANGES, OTHER, RANGES, SAMPLE, SPACE, Options

from earmark.cover.ranges.table import Ranges, RangeSet
from earmark.errors import EarmarkError
from earmark.overlay.broker import Broker, Party
from earmark.overlay.messages import (
    Hello,
    ProtocolError,
    Publish,
    Resynchronise,
    Synchronised,
    UnwantRanges,
    WantRanges,
)
from earmark.overlay.policies import policy_of
from earmark.overlay.space import Axis, Grid, Space

TREE = [("a", "hub"), ("b", "hub"), ("hub", "c"), ("c", "d")]
GRID = Grid(SPACE)


@pytest.fixture(params=RANGES)
def policy(request: pytest.FixtureRequest) -> Options:
    return RANGES[request.param]


@pytest.fixture(params=IN_RANGES)
def in_ranges(request: pytest.FixtureRequest) -> Options:
    return RANGES[request.param]


def rules(network: Network, name: str) -> Any:
    return network.brokers[name]._router.policy


def known(network: Network, at: str, of: str) -> list[tuple[int, int]]:
    """The ranges that one broker has from another."""
    found: list[tuple[int, int]] = rules(network, at)._asked[of].ranges().pairs()
    return found


def told(network: Network, at: str, to: str) -> list[tuple[int, int]]:
    """The ranges that a broker has told another."""
    found: list[tuple[int, int]] = rules(network, at)._told_ranges(to).pairs()
    return found


def drawn(rng: random.Random) -> str:
    """A condition on x and y, and now and then on more than that."""
    x, y = rng.randrange(50), rng.randrange(50)
    return rng.choice(
        [
            f"x BETWEEN {x} AND {x + rng.randrange(12)} AND y BETWEEN {y} AND {y + rng.randrange(12)}",
            f"x BETWEEN {x} AND {x + rng.randrange(12)} AND y BETWEEN {y} AND {y + rng.randrange(12)}",
            f"x = {x} OR y = {y}",
            f"x > {x} AND z = 'q'",
            f"NOT (x < {x}) AND y IS NULL",
            f"x IN ({x}, {y}) AND y >= {y}",
        ]
    )


def test_what_is_told_covers_what_others_want_and_shrinks_again(policy: Options) -> None:
    rng = random.Random(5)
    network = Network(TREE, *policy, seed=1)
    live: list[tuple[str, int]] = []
    for step in range(120):
        if live and (step > 80 or rng.random() < 0.4):
            network.unsubscribe(*live.pop(rng.randrange(len(live))))
        else:
            live.append((f"c@{rng.choice('abcd')}", step))
            network.subscribe(*live[-1], drawn(rng))
        for _ in range(rng.randrange(4)):
            network.step()
        if step % 10 == 9:
            network.run()
            for broker in network.brokers.values():
                broker._router.policy.check()  # type: ignore[attr-defined]
    while live:
        network.unsubscribe(*live.pop())
    network.run()
    for name, broker in network.brokers.items():
        broker._router.policy.check()  # type: ignore[attr-defined]
        assert all(not broker._router.policy.told(link) for link in broker._router.links), name


def test_both_sides_of_a_link_know_the_same(in_ranges: Options) -> None:
    rng = random.Random(2)
    network = Network(TREE, *in_ranges, seed=3)
    for id in range(40):
        network.subscribe(f"c@{rng.choice('abcd')}", id, drawn(rng))
    network.run()
    for id in range(0, 40, 3):
        client = next(c for c in network.numbers if id in network.brokers[c[-1]]._clients.of(c).subscriptions)
        network.unsubscribe(client, id)
    network.run()
    for a, b in [*TREE, *((b, a) for a, b in TREE)]:
        assert told(network, a, b) == known(network, b, a)
        wanted = RangeSet()
        for client, request in network.brokers[a].subscriptions():
            assert client
            wanted.add(GRID.ranges([request.condition])[0])
        ranges = RangeSet(told(network, a, b))
        assert all(ranges.holds(np.array(pair)).all() for pair in wanted.ranges().pairs())


def test_tables_do_not_depend_on_the_order(in_ranges: Options) -> None:
    """Equal to those of a network built from scratch with what is left, whatever came and went before."""
    rng = random.Random(11)
    wanted = [(f"c@{rng.choice('abcd')}", id, drawn(rng)) for id in range(60)]
    busy, fresh = Network(TREE, *in_ranges, seed=4), Network(TREE, *in_ranges, seed=5)
    for one in wanted:
        busy.subscribe(*one)
        busy.step()
    for client, id, _ in wanted[::2]:
        busy.unsubscribe(client, id)
        busy.step()
    for one in reversed(wanted[1::2]):
        fresh.subscribe(*one)
    busy.run()
    fresh.run()
    for a, b in [*TREE, *((b, a) for a, b in TREE)]:
        assert told(busy, a, b) == told(fresh, a, b) == known(busy, b, a)


def test_equal_subscriptions_of_two_links_survive_one_unsubscribe(policy: Options) -> None:
    network = Network(TREE, *policy)
    for client in ("one@a", "two@b", "three@hub"):
        network.subscribe(client, 1, "x BETWEEN 8 AND 15 AND y < 20")
        network.run()
    network.unsubscribe("one@a", 1)
    network.run()
    network.publish("pub@d", {"x": 9, "y": 3})
    network.run()
    assert [len(network.inbox(client)) for client in ("one@a", "two@b", "three@hub")] == [0, 1, 1]


def test_the_gap_is_told_with_the_range_that_closes_it() -> None:
    """A later subscription inside a closed gap is told nobody, so its publications must come anyway."""
    space = Space.even({"x": (0, 62)}, 6)
    network = Network([("a", "b"), ("b", "c")], "merging", {"space": space, "gap": 10})
    network.subscribe("one@a", 1, "x BETWEEN 0 AND 9")
    network.subscribe("one@a", 2, "x BETWEEN 15 AND 20")
    network.run()
    sent = network.messages
    network.subscribe("two@b", 1, "x BETWEEN 11 AND 12")
    network.run()
    assert not [m for _, to, m in network.log[sent:] if to == "c" and isinstance(m, WantRanges)]
    network.publish("pub@c", {"x": 12})
    network.run()
    assert network.inbox("two@b") == [({"x": 12}, (1,))] and network.inbox("one@a") == []


def test_uncovered_ones_are_told_before_the_withdrawal() -> None:
    """By Indexing: what two together had made superfluous is told before one of them goes."""
    network = Network([("a", "b")], "subsumption", {"by": "indexing"})
    for id, condition in enumerate(
        ("x BETWEEN 0 AND 9", "x BETWEEN 9.5 AND 19", "x > 9 AND x < 9.5", "x BETWEEN 5 AND 14")
    ):
        network.subscribe("c@a", id, condition)
    network.run()
    assert not [m for _, _, m in network.log if "5 AND 14" in str(m)]  # subsumed by three, covered by none
    before = len(network.log)
    network.unsubscribe("c@a", 0)
    network.run()
    kinds = [type(m).__name__ for source, _, m in network.log[before:] if source == "a"]
    assert kinds == ["Want", "Unwant"]


def test_deliveries_are_exact_whatever_ranges_let_through(policy: Options) -> None:
    rng = random.Random(7)
    network = Network(TREE, *policy, seed=2)
    conditions = {(f"c{id % 3}@{rng.choice('abcd')}", id): drawn(rng) for id in range(50)}
    for (client, id), condition in conditions.items():
        network.subscribe(client, id, condition)
    network.run()
    from earmark import Matcher

    m = Matcher()
    m.add_many([(i, condition) for i, condition in enumerate(conditions.values())])
    expected: dict[str, list[tuple[int, set[int]]]] = {client: [] for client, _ in conditions}
    for n in range(200):
        event = {"x": rng.randrange(-5, 60), "y": rng.choice([None, rng.randrange(60)]), "z": rng.choice("qr"), "n": n}
        network.publish(f"pub@{rng.choice('abcd')}", event)
        keys = [list(conditions)[place] for place in m.match(event)]
        for client in {client for client, _ in keys}:
            expected[client].append((n, {id for owner, id in keys if owner == client}))
    network.run()
    for client, wanted in expected.items():
        got = sorted((event["n"], set(ids)) for event, ids in network.inbox(client))
        assert got == sorted(wanted)


# --- one space for all ---------------------------------------------------------------------------------------------


def test_a_neighbour_in_another_space_is_refused() -> None:
    broker = Broker("a", policy="merging", options={"space": SPACE}, neighbours=["b"])
    hello = next(m for _, m in broker.connect("b") if isinstance(m, Hello))
    assert hello.space == SPACE.number
    with pytest.raises(ProtocolError, match=f"'b': expected the space {SPACE.number}, got {OTHER.number}"):
        broker.receive(Hello("b", 1, "merging", OTHER.number), Party("broker", "b"))


def test_ranges_that_make_no_sense_are_refused_and_change_nothing(in_ranges: Options) -> None:
    name, options = in_ranges
    broker, b = Broker("a", policy=name, options=options, neighbours=["b", "c"]), Party("broker", "b")
    broker.connect("b")
    broker.connect("c")
    broker.receive_many([(Hello("b", 1, name, SPACE.number), b), (Resynchronise(1, SPACE.number), b)])
    broker.receive_many([(WantRanges(2, SPACE.number, ((3, 9),)), b), (Synchronised(3), b)])
    for number, space, ranges, problem in (
        (4, OTHER.number, ((1, 2),), f"expected ranges of the space {SPACE.number}"),
        (4, SPACE.number, ((1, 2), (2, 3)), "ascending, disjoint"),
        (4, SPACE.number, ((9, 3),), "ascending, disjoint"),
        (4, SPACE.number, ((0, GRID.last + 1),), f"expected numbers from 0 to {GRID.last}"),
        (3, SPACE.number, ((0, 1),), "expected a number above 3"),
    ):
        for kind in (WantRanges, UnwantRanges):
            with pytest.raises(ProtocolError, match=problem) as refused:
                broker.receive(kind(number, space, ranges), b)
            assert "broker 'b'" in str(refused.value)
    policy: Any = broker._router.policy
    assert policy._asked["b"].ranges().pairs() == [(3, 9)] == policy._told_ranges("c").pairs()
    repeated = [(WantRanges(4, SPACE.number, ((3, 9),)), b), (UnwantRanges(5, SPACE.number, ((20, 30),)), b)]
    assert not [m for party, m in broker.receive_many(repeated) if party.name == "c"]


def test_everything_is_told_again_in_another_space(in_ranges: Options) -> None:
    name, options = in_ranges
    rng = random.Random(9)
    network = Network(TREE, name, options, seed=8)
    for id in range(30):
        network.subscribe(f"c@{rng.choice('abcd')}", id, drawn(rng))
    network.run()
    for broker in sorted(network.brokers):
        network.send(broker, network.brokers[broker].rekey(OTHER))
        network.publish("pub@d", {"x": 9, "y": 2, "n": broker})
        for _ in range(rng.randrange(6)):
            network.step()
    network.run()
    fresh = Network(TREE, name, {**options, "space": OTHER}, seed=1)
    for broker in network.brokers.values():
        for client, request in broker.subscriptions():
            fresh.subscribe(client, request.id, request.condition)
    fresh.run()
    fresh.publish("pub@d", {"x": 9, "y": 2, "n": "last"})
    fresh.run()
    for a, b in [*TREE, *((b, a) for a, b in TREE)]:
        assert told(network, a, b) == told(fresh, a, b) == known(network, b, a)
        assert not rules(network, a)._foreign and rules(network, a).space == OTHER.number
    for client in network.numbers:  # nothing was missed in between
        got, wanted = network.inbox(client), fresh.inbox(client)
        assert sorted(len(ids) for _, ids in got) == sorted([len(ids) for _, ids in wanted] * len(network.brokers))


def test_a_new_space_has_declared_types() -> None:
    broker = Broker("a", policy="merging", options={"space": SPACE}, attributes={"z": "string"})
    assert broker.rekey(SPACE) == []
    with pytest.raises(EarmarkError, match="'x' is declared as number, and string in the space"):
        broker.rekey(Space((Axis("x", "string", ()),), 2))
    with pytest.raises(EarmarkError, match="type of 'w' in the new space was not declared"):
        broker.rekey(Space.even({"w": (0, 9)}))
    assert broker.rekey(Space((Axis("z", "string", ("m",)),), 2).record) == []
    with pytest.raises(EarmarkError, match="the policy 'flood' has no space"):
        Broker("a", policy="flood").rekey(SPACE)
    with pytest.raises(EarmarkError, match="'x' is declared as string, and number in the space"):
        Broker("a", policy="merging", options={"space": SPACE}, attributes={"x": "string"})
    with pytest.raises(EarmarkError, match="expected the zone of the space, 'UTC', got"):
        Broker("a", policy="merging", options={"space": SPACE}, zone="Europe/Oslo")


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("subsumption", {}, "the policy 'subsumption' needs a space"),
        ("merging", {}, "the policy 'merging' needs a space"),
        ("subsumption", {"by": "magic"}, "expected projection or indexing for by"),
        ("subsumption", {"by": "indexing", "space": SPACE}, "does not take all of these options"),
        ("subsumption", {"by": "indexing", "work": 0}, "for work, got 0"),
        ("subsumption", {"space": SPACE, "most": 0}, "for most, got 0"),
        ("subsumption", {"space": {"axes": 3}}, "expected the description of a space"),
        ("merging", {"space": SPACE, "gap": -1}, "for gap, got -1"),
        ("merging", {"space": SPACE, "budget": -1.0, "sample": SAMPLE}, "expected a share of extra traffic"),
        ("merging", {"space": SPACE, "budget": 0.1}, "a budget with a sample"),
        ("merging", {"space": SPACE, "budget": 0.1, "sample": SAMPLE, "gap": 3}, "without a gap"),
        ("merging", {"space": SPACE, "hops": 0}, "for hops, got 0"),
    ],
)
def test_mistakes_get_a_sentence(name: str, options: dict[str, object], problem: str) -> None:
    with pytest.raises(EarmarkError, match=problem):
        policy_of(name, options)


class Moving(Lifetime):
    """A life in which all brokers change their space, one after the other, while messages are on their way."""

    @rule(seed=st.integers(0, 99))
    def move(self, seed: int) -> None:
        self.network.run()  # a broker that is still greeting another would be refused
        rng = random.Random(seed)
        space = OTHER if self.network.options["space"] is SPACE else SPACE
        for name in rng.sample(self.names, len(self.names)):
            self.network.send(name, self.network.brokers[name].rekey(space))
            for _ in range(rng.randrange(5)):
                self.network.step()
            if rng.random() < 0.5:
                self.publish(rng.randrange(99), {"x": rng.randrange(9), "y": rng.randrange(9)})
        self.network.options = {**self.network.options, "space": space}

    def check_tables(self) -> None:
        super().check_tables()
        for name, broker in self.network.brokers.items():
            policy: Any = broker._router.policy
            policy.check()
            assert not policy._foreign and not policy._again
            for link in broker._router.links:
                assert told(self.network, link, name) == known(self.network, name, link)


@pytest.mark.parametrize("policy", IN_RANGES)
def test_lives_in_changing_spaces(policy: str) -> None:
    name, options = RANGES[policy]
    machine = type(f"Moving under {policy}", (Moving,), {"policy": name, "options": options})
    examples, steps = (5, 25) if settings().max_examples <= 100 else (500, 200)
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=steps))


# --- the budget ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("distribution", ["uniform", "skewed"])
def test_extra_traffic_between_brokers_is_within_the_budget(distribution: str) -> None:
    """On events that were not in the sample: what crosses links because of closed gaps, along a line of five."""
    rng, budget = np.random.default_rng(6), 0.2
    draw = (lambda n: rng.random((n, 2))) if distribution == "uniform" else (lambda n: rng.beta(0.7, 3, (n, 2)))
    space = Space.even({"x": (0, 1_000), "y": (0, 1_000)}, 7)
    sample, held_out = ((draw(n) * 1_000).round(2).tolist() for n in (2_000, 2_000))
    boxes = (draw(120) * 960).astype(int).tolist()
    merged = {"budget": budget, "sample": [{"x": x, "y": y} for x, y in sample], "hops": 4}
    perfect, ranges, right = traffic({"space": space}, boxes, held_out)
    spent, fewer, got = traffic({"space": space, **merged}, boxes, held_out)
    assert got == right
    assert fewer < 0.95 * ranges
    assert perfect < spent <= perfect * (1 + budget)


def traffic(options: dict[str, Any], boxes: list[list[int]], events: list[list[float]]) -> tuple[int, int, object]:
    """Publications on the links of a line under merging, ranges in all tables, and what clients get."""
    line = [*pairwise("abcde")]
    network = Network(line, "merging", options)
    for id, (x, y) in enumerate(boxes):
        network.subscribe(f"c@{'abcde'[id % 5]}", id, f"x BETWEEN {x} AND {x + 25} AND y BETWEEN {y} AND {y + 25}")
    network.run()
    before = network.messages
    for place, name in enumerate("abcde"):
        requests = [Publish(n + 1, {"x": x, "y": y}) for n, (x, y) in enumerate(events[place::5])]
        sent = network.brokers[name].receive_many([(request, Party("client", "p")) for request in requests])
        network.send(name, sent)
    network.run()
    tables = sum(len(told(network, a, b)) for a, b in [*line, *((b, a) for a, b in line)])
    return network.messages - before, tables, {c: sorted(map(str, network.inbox(c))) for c in network.numbers}


def test_ranges_of_the_whole_line_fit_messages() -> None:
    """Tens of thousands of ranges are told in several messages, each below the limit."""
    space = Space.even({"x": (0, 60_000), "y": (0, 60_000)}, 16)
    network = Network([("a", "b")], "merging", {"space": space, "most": 4})
    policy = rules(network, "a")
    first = np.arange(0, 50_000, dtype=np.int64) * 5 + (policy._grid.last - 300_000)
    policy._local["b"].take_in(Ranges(first, first))
    assert len(policy.told("b")) > 2 and sum(len(one.ranges) for one in policy.told("b")) == 50_000
    for a, b in (("a", "b"),):
        network.cut(a, b)
        network.connect(a, b)
    network.run()
    assert len(known(network, "b", "a")) == 50_000
