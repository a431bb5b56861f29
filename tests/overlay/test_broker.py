"""One broker, and small networks: what clients hear, step by step, under each policy."""

from __future__ import annotations

import json

import pytest
from tests.overlay.network import Network
from tests.overlay.ranges import RANGES

from earmark.errors import EarmarkError
from earmark.overlay.broker import Broker, Party
from earmark.overlay.messages import (
    Hello,
    InForce,
    ProtocolError,
    Publication,
    Publish,
    Refused,
    Resynchronise,
    Shed,
    Subscribe,
    Synchronised,
    Unsubscribe,
    Unwant,
    Want,
)

POLICIES = [
    ("flood", {}),
    ("covering", {}),
    ("covering", {"withdraw": True}),
    ("covering", {"graph": "poset", "index": "linear"}),
    *RANGES.values(),
]
LINE = [("a", "b"), ("b", "c")]
STAR = [("hub", "n"), ("hub", "s"), ("hub", "w")]


@pytest.fixture(params=POLICIES, ids=lambda policy: "-".join([policy[0], *policy[1]]))
def policy(request: pytest.FixtureRequest) -> tuple[str, dict[str, object]]:
    return request.param


def wants(network: Network, at: str, of: str) -> list[str]:
    """The conditions that one broker has from another, sorted."""
    return sorted(entry.condition for entry in network.brokers[at]._router.links[of].wants.values())


def test_a_publication_reaches_who_wants_it(policy):
    network = Network(LINE, *policy)
    network.subscribe("ann@a", "1", "x > 5")
    network.run()
    assert network.in_force("ann@a") == 1
    network.publish("bob@c", {"x": 7})
    network.publish("bob@c", {"x": 3})
    network.run()
    assert network.inbox("ann@a") == [({"x": 7}, ("1",))]
    network.unsubscribe("ann@a", "1")
    network.run()
    assert network.in_force("ann@a") == 2
    sent = network.messages
    network.publish("bob@c", {"x": 7})
    network.run()
    assert network.messages == sent and len(network.inbox("ann@a")) == 1


def test_not_in_force_before_the_far_end_has_it():
    network = Network([*LINE, ("c", "d")])
    network.run()
    network.subscribe("ann@a", "1", "x > 5")
    while network.step():
        told = bool(network.brokers["d"]._router.links["c"].wants)
        assert told or network.in_force("ann@a") == 0
    assert network.in_force("ann@a") == 1


def test_a_wide_subscription_of_a_does_not_keep_bs_narrow_one_from_a(policy):
    """One relation graph per router loses events; there is one per outgoing link."""
    network = Network([("a", "hub"), ("b", "hub")], *policy)
    network.run()
    network.subscribe("wide@a", "w", "x >= 0")
    network.run()
    network.subscribe("narrow@b", "n", "x BETWEEN 3 AND 5")
    network.run()
    assert wants(network, "a", "hub") == ["x BETWEEN 3 AND 5"] or "space" in policy[1]
    network.publish("pub@a", {"x": 4})
    network.run()
    assert network.inbox("narrow@b") == [({"x": 4}, ("n",))]


def test_overlapping_wants_of_two_neighbours_survive_the_first_one_leaving(policy):
    """15 to 20 is still wanted when the neighbour that asked for 10 to 20 leaves."""
    network = Network(STAR, *policy)
    network.subscribe("one@n", 1, "x BETWEEN 10 AND 20")
    network.subscribe("two@s", 1, "x BETWEEN 15 AND 30")
    network.run()
    network.unsubscribe("one@n", 1)
    network.run()
    network.publish("pub@w", {"x": 17})
    network.run()
    assert network.inbox("two@s") == [({"x": 17}, (1,))]
    assert network.inbox("one@n") == []


def test_equal_subscriptions_from_two_links_survive_one_unsubscribe(policy):
    for leaver, stayer in (("one@n", "two@s"), ("two@s", "one@n")):
        network = Network(STAR, *policy)
        network.subscribe("one@n", 1, "x = 1")
        network.run()
        network.subscribe("two@s", 1, "x = 1")
        network.run()
        network.unsubscribe(leaver, 1)
        network.run()
        network.publish("pub@w", {"x": 1})
        network.run()
        assert network.inbox(stayer) == [({"x": 1}, (1,))]


def test_uncovered_ones_are_told_before_the_withdrawal():
    network = Network([("a", "b")])
    network.subscribe("wide@a", "w", "x >= 0")
    for number in range(3):
        network.subscribe("narrow@a", number, f"x = {number}")
    network.run()
    assert wants(network, "b", "a") == ["x >= 0"]
    network.log.clear()
    network.unsubscribe("wide@a", "w")
    network.run()
    said = [type(message) for source, _, message in network.log if source == "a"]
    assert said == [Want, Want, Want, Unwant]


def test_covering_tells_less_than_flooding():
    counts = {}
    for name in ("flood", "covering"):
        network = Network([*LINE, ("c", "d")], name)
        network.subscribe("ann@a", "w", "x >= 0")
        for number in range(10):
            network.subscribe("ann@a", str(number), f"x = {number}")
        network.run()
        counts[name] = sum(isinstance(message, Want) for *_, message in network.log)
    assert counts == {"flood": 33, "covering": 3}


def test_a_publication_never_goes_back_and_comes_once(policy):
    network = Network(STAR, *policy)
    for home in ("n", "s", "w", "hub"):
        network.subscribe(f"c@{home}", 1, "x > 0")
    network.run()
    network.log.clear()
    network.publish("c@n", {"x": 1})
    network.run()
    hops = [(a, b) for a, b, message in network.log if isinstance(message, Publication)]
    assert sorted(hops) == [("hub", "s"), ("hub", "w"), ("n", "hub")]
    for home in ("n", "s", "w", "hub"):
        assert network.inbox(f"c@{home}") == [({"x": 1}, (1,))]


def test_one_notification_names_all_ids_of_a_client():
    network = Network(LINE)
    network.subscribe("ann@a", "wide", "x > 0")
    network.subscribe("ann@a", 7, "x > 5")
    network.run()
    network.publish("bob@c", {"x": 6})
    network.run()
    assert network.inbox("ann@a") == [({"x": 6}, ("wide", 7))]


def test_the_best_k_come_best_first():
    network = Network(LINE)
    network.prefer("ann@a", k=2)
    for id, score in (("low", 1.0), ("high", 9.0), ("middle", 5.0)):
        network.subscribe("ann@a", id, "x > 0", score=score)
    network.run()
    network.publish("bob@c", {"x": 1})
    network.run()
    [notification] = network.notifications("ann@a")
    assert notification.ids == ("high", "middle")
    assert notification.scores[0] > notification.scores[1]


def test_what_waits_for_a_client_is_bounded_and_the_worst_is_shed():
    broker = Broker("a")
    ann, bob = Party("client", "ann"), Party("client", "bob")
    broker.receive(Subscribe(1, "any", "x >= 0"), ann)
    broker.receive(Subscribe(2, "good", "x >= 5", {}, 10.0), ann)
    from earmark.overlay.messages import Prefer

    broker.receive(Prefer(3, None, 3), ann)
    for number, x in enumerate([5, 1, 6, 2, 7], 1):
        broker.receive(Publish(number, {"x": x}), bob)
    sent = broker.attach("ann")
    assert [message for _, message in sent if isinstance(message, Shed)] == [Shed(2)]
    assert [message.event["x"] for _, message in sent[2:]] == [5, 6, 7]
    assert broker.detach("ann") == []
    assert broker.attach("ann") == [(ann, InForce(3))]


def test_what_a_client_gets_wrong_is_refused_and_changes_nothing():
    broker = Broker("a")
    ann = Party("client", "ann")
    broker.attach("ann")
    for request in (
        Subscribe(1, "1", "x >"),
        Unsubscribe(2, "nothing"),
        Subscribe(3, "2", "x > 5", {"y": 1.0}),
    ):
        first, *rest = broker.receive(request, ann)
        assert isinstance(first[1], Refused) and first[1].number == request.number
        assert rest == [(ann, InForce(request.number))]
    assert list(broker.subscriptions()) == []
    broker.receive(Subscribe(4, "2", "x > 5"), ann)
    refused = broker.receive(Publish(5, {"x": "text"}), ann)
    assert [type(message) for _, message in refused] == [Refused]
    assert [type(message) for _, message in broker.receive(Subscribe(6, "2", "x > 6"), ann)] == [Refused, InForce]
    assert list(broker.subscriptions()) == [("ann", Subscribe(4, "2", "x > 5"))]


def test_a_duplicate_request_is_taken_once():
    broker = Broker("a")
    ann = Party("client", "ann")
    broker.attach("ann")
    broker.receive(Subscribe(1, "1", "x > 5"), ann)
    assert broker.receive(Subscribe(1, "1", "x > 5"), ann) == [(ann, InForce(1))]
    assert broker.receive(Subscribe(2, "1", "x > 5"), ann) == [(ann, InForce(2))]
    assert len(broker.receive(Publish(3, {"x": 6}), ann)) == 1
    assert broker.receive(Publish(3, {"x": 6}), ann) == []


def test_a_condition_that_contradicts_other_types_is_wide_and_loses_nothing(policy):
    network = Network(LINE, *policy)
    network.subscribe("num@b", 1, "x > 5")
    network.subscribe("text@a", 1, "x = 'five'")
    network.run()
    if "space" in policy[1]:  # a space declares the types of its axes
        assert [one.number for one in network.heard["text@a"] if isinstance(one, Refused)] == [1]
        return
    network.publish("bob@c", {"x": "five"})
    network.run()
    assert network.inbox("text@a") == [({"x": "five"}, (1,))]


def test_forget_withdraws_everything(policy):
    network = Network(LINE, *policy)
    for number in range(3):
        network.subscribe("ann@a", number, f"x > {number}")
    network.run()
    network.send("a", network.brokers["a"].forget("ann@a"))
    network.run()
    assert wants(network, "c", "b") == wants(network, "b", "a") == []


# --- links come and go ---------------------------------------------------------------------------------------------


def test_what_was_published_during_a_cut_arrives_after_it(policy):
    network = Network(LINE, *policy)
    network.subscribe("ann@a", 1, "x > 5")
    network.run()
    network.cut("a", "b")
    for x in (6, 7, 1):
        network.publish("bob@c", {"x": x})
    network.subscribe("late@a", 1, "x > 0")
    network.run()
    assert network.inbox("ann@a") == [] and network.in_force("late@a") == 0
    network.connect("a", "b")
    network.run()
    assert [event["x"] for event, _ in network.inbox("ann@a")] == [6, 7]
    assert network.in_force("late@a") == 1


def test_what_was_on_its_way_arrives_once(policy):
    network = Network(LINE, *policy, seed=3)
    network.subscribe("ann@a", 1, "x > 0")
    network.run()
    for x in range(1, 30):
        network.publish("bob@c", {"x": x})
        network.step()
        if x % 7 == 0:
            network.cut("a", "b")
            network.connect("b", "a")
    network.run()
    assert [event["x"] for event, _ in network.inbox("ann@a")] == list(range(1, 30))


def test_a_restarted_broker_holds_publications_until_neighbours_have_told(policy):
    network = Network(LINE, *policy)
    network.subscribe("ann@a", 1, "x > 0")
    network.run()
    network.restart("b")
    network.connect("b", "c")
    network.publish("bob@c", {"x": 1})
    network.run()
    network.publish("here@b", {"x": 2})
    network.run()
    assert network.inbox("ann@a") == []
    network.connect("a", "b")
    network.run()
    assert sorted(event["x"] for event, _ in network.inbox("ann@a")) == [1, 2]


def test_after_a_cut_tables_are_those_of_a_network_never_cut():
    for name, options in POLICIES:
        cut, whole = Network(STAR, name, options), Network(STAR, name, options)
        for network in (cut, whole):
            for number in range(6):
                network.subscribe("ann@n", number, f"x BETWEEN {number} AND {2 * number}")
            network.run()
            if network is cut:
                network.cut("hub", "n")
            network.unsubscribe("ann@n", 2)
            network.subscribe("ann@n", "new", "x > 100")
            network.run()
            if network is cut:
                network.connect("hub", "n")
                network.run()
        for at, of in (("hub", "n"), ("s", "hub"), ("w", "hub"), ("n", "hub")):
            assert wants(cut, at, of) == wants(whole, at, of)
            assert not cut.brokers[at]._router.links[of].stale


def test_waiting_for_a_neighbour_that_never_comes_has_an_end():
    broker = Broker("a", neighbours=["b"], patience=10)
    ann = Party("client", "ann")
    broker.attach("ann")
    assert broker.receive(Subscribe(1, "1", "x > 5"), ann) == []
    broker.receive(Publish(2, {"x": 1}), ann)
    assert broker.tick(100.0) == []
    assert broker.tick(111.0) == [(ann, InForce(1))]
    assert broker.status()["publications"]["lost"] == 1


def test_holding_is_bounded_and_losses_are_counted():
    network = Network([("a", "b")], holding=5)
    network.subscribe("ann@a", 1, "x > 0")
    network.run()
    network.cut("a", "b")
    for x in range(1, 9):
        network.publish("bob@b", {"x": x})
    network.connect("a", "b")
    network.run()
    assert [event["x"] for event, _ in network.inbox("ann@a")] == [4, 5, 6, 7, 8]
    assert network.brokers["b"].status()["publications"]["lost"] == 3


# --- protocol errors -------------------------------------------------------------------------------------------------


def up(name: str = "b") -> tuple[Broker, Party]:
    """A broker with one neighbour that has told everything: one entry, under label 1."""
    broker, party = Broker("a", policy="flood", neighbours=[name]), Party("broker", name)
    broker.connect(name)
    told = [Hello(name, 1, "flood", 0), Resynchronise(1, 0), Want(2, 1, "x > 5"), Synchronised(3)]
    broker.receive_many([(message, party) for message in told])
    return broker, party


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Hello("b", 1, "flood", 0), "Hello is out of place in state UP"),
        (Want(4, 1, "x > 6"), "expected a new label, got 1 again"),
        (Want(4, 2, "x >"), "condition 'x >'"),
        (Want(3, 2, "x > 6"), "expected a number above 3, got 3"),
        (Unwant(4, 2), "expected the label of an entry, got 2"),
        (InForce(99), "expected an acknowledged number from 0 to 2, got 99"),
        (Synchronised(4), "Synchronised is out of place"),
        (Publication("a", 1, 1, {}), "of this broker back: the overlay has a cycle"),
        (Subscribe(1, "1", "x > 5"), "Subscribe is out of place"),
        (Refused(1, ""), "Refused is out of place"),
    ],
)
def test_a_protocol_error_names_the_sender_and_changes_nothing(message, reason):
    broker, party = up()
    before = broker.status() | {"errors": 1}
    with pytest.raises(ProtocolError, match="broker 'b': ") as caught:
        broker.receive(message, party)
    assert reason in str(caught.value)
    assert broker.status() == before


def test_a_client_that_talks_like_a_broker_is_refused_by_name():
    with pytest.raises(ProtocolError, match="client 'ann': expected what a client says, got Want"):
        Broker("a").receive(Want(1, 1, "x > 5"), Party("client", "ann"))


def test_an_error_in_a_batch_keeps_what_came_before():
    broker, party = up()
    with pytest.raises(ProtocolError) as caught:
        broker.receive_many([(Want(4, 2, "x > 6"), party), (Unwant(5, 77), party), (Want(6, 3, "y = 1"), party)])
    assert caught.value.handled == 1
    assert caught.value.sent == [(party, InForce(4))]
    assert broker.status()["entries"] == 2


def test_hello_must_be_from_whom_it_should_be():
    for hello, reason in (
        (Hello("c", 1, "flood", 0), "expected Hello from 'b'"),
        (Hello("b", 1, "covering", 0), "expected the policy 'flood'"),
    ):
        broker = Broker("a", policy="flood")
        broker.connect("b")
        with pytest.raises(ProtocolError, match=reason):
            broker.receive(hello, Party("broker", "b"))


def test_misuse_by_the_driver_is_an_error():
    broker = Broker("a")
    broker.connect("b")
    with pytest.raises(EarmarkError, match="connected already"):
        broker.connect("b")
    with pytest.raises(EarmarkError, match="not connected"):
        broker.disconnect("c")
    with pytest.raises(EarmarkError, match="expected the name of a policy"):
        Broker("a", policy="nothing")
    with pytest.raises(EarmarkError, match="does not take all of these options"):
        Broker("a", policy="flood", options={"k": 1})


def test_status_is_json(policy):
    network = Network(LINE, *policy)
    network.subscribe("ann@a", 1, "x > 5")
    network.run()
    status = json.loads(json.dumps(network.brokers["b"].status()))
    counts = status["links"]["a"]["wants"], status["links"]["c"]["told"]
    assert counts == (1, 1) or ("space" in policy[1] and min(counts) > 0)
