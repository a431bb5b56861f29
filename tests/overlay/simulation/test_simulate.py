"""Whole networks: the same record from the same seed, and deliveries that one central scan agrees with."""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earmark import Interval, Matcher
from earmark.errors import EarmarkError
from earmark.overlay.simulation import (
    VARIANTS,
    Crash,
    Cut,
    Faults,
    Network,
    Plan,
    Report,
    comparison,
    content_of,
    content_of_rows,
    drawn_faults,
    plan_of,
    simulate,
    summary,
    topology_of,
)
from earmark.overlay.simulation import network as networks
from earmark.overlay.simulation.content import offer_of
from earmark.overlay.simulation.oracle import judge
from earmark.overlay.simulation.variants import variant_of

SECOND = 1_000_000
BAD: dict[str, float] = {"loss": 0.1, "duplication": 0.1, "jitter": 0.008}


def plan(topology: str = "figure-1", subscriptions: int = 40, publications: int = 30, **changes: Any) -> Plan:
    seed, name = changes.pop("seed", 1), changes.pop("name", "shen-uniform")
    content = content_of(name, subscriptions, publications, attributes=2, unsubscribes=0.2, seed=seed)
    return plan_of(content, topology_of(topology, seed), seed=seed, **{"withdraw": 0.3, "clients": 2} | changes)


def run(network: Network) -> Network:
    for phase in range(len(network.plan.phases)):
        for _ in network.run(phase):
            pass
    return network


def tables(network: Network) -> dict[tuple[str, str], Any]:
    """What each broker knows of what each neighbour wants: conditions, or ranges."""
    known: dict[tuple[str, str], Any] = {}
    for broker in network.brokers:
        assert broker is not None
        asked = getattr(broker._router.policy, "_asked", {})
        for link in broker._router.links.values():
            conditions = Counter(entry.condition for entry in link.wants.values())
            ranges = asked[link.name].ranges().pairs() if link.name in asked else []
            known[broker.name, link.name] = conditions, ranges
    return known


def assert_exact(report: Report) -> None:
    assert report.verdict.is_exact, summary(report)
    assert report.verdict.publications == report.publications and report.refused == 0
    assert report.verdict.expected > 0


@pytest.mark.parametrize("policy", VARIANTS)
def test_perfect_links(policy: str) -> None:
    report = simulate(plan(), policy)
    assert_exact(report)
    assert report.crashes == report.resets == report.repeated == 0 and not report.frames
    assert [rest.phase for rest in report.phases] == ["subscribe", "publish", "withdraw", "publish again"]
    assert report.control == sum(rest.control for rest in report.phases) > 0
    assert report.hops == report.messages["Publication"] >= report.false_positives
    assert report.bursts.count > 0 and report.in_force.count > 0 and report.path.most <= 6
    assert sum(link["control"] for link in report.links) == report.control


@pytest.mark.parametrize("topology", ["line:1", "line:7", "star:8", "tree:9", "random:12"])
def test_topologies(topology: str) -> None:
    assert_exact(simulate(plan(topology, mixed=True), "covering"))


def test_no_hop_is_useless_when_everything_is_told() -> None:
    whole = plan(name="mics-zipf")
    report = simulate(whole, "flood")
    assert report.false_positives == 0
    living = len(whole.content.conditions) - sum(command < 0 for command in whole.content.commands)
    assert report.entries == 10 * living


@pytest.mark.parametrize("policy", VARIANTS)
def test_everything_goes_wrong(policy: str) -> None:
    for seed in range(2):
        whole = plan(mixed=True, seed=seed)
        faults = drawn_faults(whole, cuts=4, crashes=3, longest=0.4, seed=seed, **BAD)
        report = simulate(whole, policy, faults=faults, seed=seed)
        assert_exact(report)
        assert report.crashes and report.frames["lost"] and report.frames["repeated"]


def test_the_same_seed_gives_the_same_record() -> None:
    whole = plan(mixed=True)
    faults = drawn_faults(whole, cuts=3, crashes=2, longest=0.3, **BAD)
    first, second, other = io.BytesIO(), io.BytesIO(), io.BytesIO()
    reports = [simulate(whole, faults=faults, seed=3, record=file) for file in (first, second)]
    assert first.getvalue() == second.getvalue()
    assert reports[0] == reports[1]
    assert reports[0].checksum == reports[1].checksum
    assert simulate(whole, faults=faults, seed=4, record=other).checksum != reports[0].checksum
    lines = [json.loads(line) for line in first.getvalue().splitlines()]
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert sum(len(line["messages"]) for line in lines if "messages" in line) == sum(reports[0].messages.values())


def hops(network: Network) -> Counter[tuple[int, int, int]]:
    """Which links each publication took."""
    history = network.history
    return Counter(zip(history.hop_publication, history.hop_from, history.hop_to, strict=True))


@pytest.mark.parametrize("policy", VARIANTS)
def test_tables_converge_after_a_partition(policy: str) -> None:
    """While links are cut both sides change; when they are back, tables are those of a network that was never cut.

    What is told may depend on the order in which brokers hear of it, but not under the policies of `same_tables`. Under
    the others, tables must want the same: later publications take the same links.
    """
    same_tables = ("flood", "covering-poset", "subsumption", "merging", "merging-gap", "merging-budget")
    content = content_of("shen-uniform", 100, 60, attributes=2, unsubscribes=0.4)
    whole = plan_of(content, topology_of("line:4"), at_once=2)
    cut_for = max(request.at for request in whole.phases[0].requests)
    cuts = tuple(Cut(0, 10_000, cut_for, edge, is_silent=edge == 2) for edge in (1, 2))
    name, options = variant_of(policy, content, {})
    never_cut = run(Network(whole, name, options, Faults()))
    is_in_ranges = never_cut.brokers[0] is not None and never_cut.brokers[0].space > 0
    short = 12 if is_in_ranges else 60
    for queue in (1_000, short):  # what waits fits the queue; with much to tell it does not, and the channel is lost
        cut = run(Network(whole, name, options, Faults(cuts=cuts, queue=queue)))
        assert (cut.resets > 0) == (queue == short) or policy not in same_tables
        assert hops(cut) == hops(never_cut)
        assert policy not in same_tables or tables(cut) == tables(never_cut)
        assert judge(cut.history).is_exact


def test_during_a_partition_nothing_wrong_is_delivered() -> None:
    """Publications during a cut reach one side at once, and the other when it is over."""
    content = content_of_rows(["x > 0", "x > 0", "x > 10"], [{"x": value} for value in (5, 20, -3)])
    made = plan_of(content, topology_of("line:3"), clients=1, at_once=1)
    whole = Plan(made.topology, content, made.home, [0, 2, 2], [0, 0, 0], made.phases)
    network = Network(whole, "covering", {}, Faults(cuts=(Cut(1, 0, 2 * SECOND, 1, False),)))
    begun = 0
    for phase in range(2):
        begun = network.agenda.now
        for _ in network.run(phase):
            pass
    assert judge(network.history).is_exact
    when = zip(network.history.notified_client, network.history.notified_at, strict=True)
    for client, at in when:
        assert (at - begun > 2 * SECOND) == (client == 2)


def test_a_crash_while_nothing_is_inside_loses_nothing() -> None:
    whole = plan(subscriptions=40)
    last = max(request.at for request in whole.phases[1].requests)
    report = simulate(whole, faults=Faults(crashes=(Crash(1, last // 2 + 5_000, last // 2 + 300_000, 0),)))
    assert_exact(report)
    assert report.crashes == 1 and report.resets >= 1


def test_a_lost_message_is_noticed() -> None:
    """The oracle finds it out when a broker keeps a publication to itself."""
    network = Network(plan(), "flood", {}, Faults())
    arrived = network.arrived

    def forgetful(sender: int, receiver: int, messages: Any) -> None:
        arrived(sender, receiver, [m for m in messages if type(m).__name__ != "Publication" or m.number % 2])

    network.arrived = forgetful  # type: ignore[method-assign]
    run(network)
    verdict = judge(network.history)
    assert verdict.missing and not verdict.wrong and not verdict.is_exact


def test_refused_publications_do_not_count() -> None:
    content = content_of_rows(["x > 0", "y = 'a'"], [{"x": 1}, {"x": "one"}, {"x": 2}])
    whole = plan_of(content, topology_of("line:1"), clients=1)
    report = simulate(whole)
    assert report.refused == 1 and report.verdict.is_exact
    assert report.verdict.publications == 2 == report.verdict.delivered


def test_words() -> None:
    reports = [simulate(plan(), policy, faults=Faults(loss=0.05)) for policy in ("flood", "covering")]
    text = summary(reports[0])
    for part in ("flood on figure-1: 11 brokers, 22 clients", "exact: ", "control messages", "of no use", "frames"):
        assert part in text, part
    reports[1].verdict.missing = 3
    assert "WRONG: 3 missing, 0 wrong, 0 twice" in summary(reports[1])
    table = comparison(reports).splitlines()
    assert table[0].startswith("policy") and table[1].startswith("flood") and table[2].endswith("WRONG")
    assert reports[0].as_json()["exact"] is True
    json.dumps(reports[0].as_json())


def test_a_queue_that_is_too_short_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "LONGEST_UNREST", 3 * SECOND)
    monkeypatch.setattr(networks, "MOST_DELAYS", 1)
    with pytest.raises(EarmarkError, match="did not come to rest within 3 simulated seconds; a queue of 2 messages"):
        simulate(plan("line:2", 20, 2), faults=Faults(queue=2, loss=0.01))


@settings(max_examples=10)
@given(st.data())
def test_random_networks(data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 2**32), "seed")
    topology = data.draw(st.sampled_from(["line:4", "star:5", "tree:7", "random:8"]), "topology")
    size = data.draw(st.sampled_from([(8, 6), (30, 12)]), "size")
    whole = plan(topology, *size, seed=seed, mixed=data.draw(st.booleans(), "mixed"), at_once=1 + seed % 5)
    faults = drawn_faults(
        whole,
        cuts=data.draw(st.integers(0, 6), "cuts"),
        crashes=data.draw(st.integers(0, 4), "crashes"),
        longest=data.draw(st.sampled_from([0.02, 0.2, 2.0]), "longest"),
        seed=seed,
        loss=data.draw(st.sampled_from([0.0, 0.2]), "loss"),
        duplication=data.draw(st.sampled_from([0.0, 0.2]), "duplication"),
        jitter=data.draw(st.sampled_from([0.0, 0.009]), "jitter"),
        queue=data.draw(st.sampled_from([60, 65_536]), "queue"),
    )
    policy = data.draw(st.sampled_from(VARIANTS), "policy")
    report = simulate(whole, policy, faults=faults, seed=seed)
    assert report.verdict.is_exact, summary(report)


@pytest.mark.parametrize("policy", ["flood", "covering", "subsumption", "merging-gap"])
def test_advertisements(policy: str) -> None:
    report, without = simulate(plan(advertise=True), policy), simulate(plan(), policy)
    assert_exact(report)
    assert report.advertisements == report.publications and report.phases[0].phase == "advertise"
    assert report.messages["Offer"] > report.advertisements and report.entries < without.entries
    assert f"  advertisements  {report.advertisements:,}, told in {report.messages['Offer']:,} of" in summary(report)
    whole = plan(advertise=True, mixed=True)
    faults = drawn_faults(whole, cuts=4, crashes=3, longest=0.4, seed=1, **BAD)
    assert_exact(simulate(whole, policy, faults=faults, seed=1))


def test_an_event_is_what_its_advertisement_takes() -> None:
    intervals = {"a b": Interval(1, 2), "b": Interval(None, 3), "c": Interval(4, None), "d": Interval(None, None)}
    event = {**intervals, "e": None, "f": "it's", "g": True, "h": 0.1, "i": -(2**60), "j": float("nan")}
    matcher = Matcher()
    matcher.add("offer", offer_of(event))
    matcher.add("all", offer_of({}))
    assert matcher.match(event) == ["offer", "all"]
    for name, value in (("a b", 3), ("b", 4), ("c", 3), ("e", 1), ("f", "its"), ("h", 0.2), ("i", -(2**60) + 1)):
        assert matcher.match({**event, name: value}) == ["all"]
