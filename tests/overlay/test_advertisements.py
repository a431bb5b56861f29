"""Advertisements prune where subscriptions travel, and lose nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tests.overlay.lifetime import Wanted, conditions
from tests.overlay.network import Network
from tests.overlay.test_broker import wants

from earmark.overlay.messages import Advertise, Offer, Refused, Unadvertise, Want
from earmark.overlay.offers import Offers
from earmark.overlay.policies import LOCAL, Entry

STAR = [("hub", "n"), ("hub", "s"), ("hub", "w")]


@pytest.fixture(params=["flood", "covering"])
def network(request: pytest.FixtureRequest) -> Network:
    made = Network(STAR, request.param, advertisements=True)
    made.run()
    return made


def test_subscriptions_go_only_where_something_is_offered(network):
    network.request("pub@n", Advertise, 1, "x BETWEEN 0 AND 10")
    network.subscribe("sub@s", 1, "x > 5")
    network.subscribe("sub@s", 2, "x > 50")
    network.run()
    assert wants(network, "n", "hub") == ["x > 5"]
    assert wants(network, "hub", "s") == ["x > 5"]
    assert wants(network, "w", "hub") == []
    network.publish("pub@n", {"x": 7})
    network.run()
    assert network.inbox("sub@s") == [({"x": 7}, (1,))]


def test_an_offer_is_in_force_when_subscriptions_have_come_to_it(network):
    network.subscribe("sub@s", 1, "x > 5")
    network.run()
    assert wants(network, "n", "hub") == wants(network, "w", "hub") == [] and network.in_force("sub@s") == 1
    number = network.request("pub@n", Advertise, 1, "TRUE")
    while network.step():
        assert wants(network, "n", "hub") == ["x > 5"] or network.in_force("pub@n") < number
    assert network.in_force("pub@n") == number and wants(network, "n", "hub") == ["x > 5"]


def test_withdrawn_offers_withdraw_subscriptions(network):
    network.subscribe("sub@s", 1, "x > 5")
    network.request("pub@n", Advertise, 1, "x = 6")
    network.request("pub@n", Advertise, 2, "x = 7")
    network.run()
    network.request("pub@n", Unadvertise, 1)
    network.run()
    assert wants(network, "n", "hub") == ["x > 5"]
    network.request("pub@n", Unadvertise, 2)
    network.run()
    assert wants(network, "n", "hub") == [] and wants(network, "hub", "s") == []


def test_what_was_not_advertised_is_refused(network):
    network.request("pub@n", Advertise, 1, "x < 10")
    network.publish("pub@n", {"x": 11})
    assert isinstance(network.heard["pub@n"][-1], Refused)
    network.request("pub@n", Unadvertise, "nothing")
    assert any(isinstance(one, Refused) and "'nothing'" in one.reason for one in network.heard["pub@n"])


def test_offers_come_again_after_a_cut(network):
    network.request("pub@n", Advertise, 1, "x = 6")
    network.subscribe("sub@s", 1, "x > 5")
    network.run()
    network.cut("hub", "n")
    network.request("pub@n", Unadvertise, 1)
    network.request("pub@n", Advertise, 2, "x = 1")
    network.connect("hub", "n")
    network.run()
    assert wants(network, "n", "hub") == []
    assert [entry.condition for entry in network.brokers["s"]._router.links["hub"].offers.values()] == ["x = 1"]


def test_without_advertisements_they_have_no_effect():
    network = Network(STAR)
    network.subscribe("sub@s", 1, "x > 5")
    network.request("pub@n", Advertise, 1, "x = 6")
    network.run()
    assert not any(isinstance(message, Offer) for *_, message in network.log)
    assert sum(isinstance(message, Want) for *_, message in network.log) == 3
    network.publish("pub@n", {"x": 8})
    network.run()
    assert network.inbox("sub@s") == [({"x": 8}, (1,))]


EVENTS = [{"x": x, "y": y, "s": s} for x in (None, *range(9)) for y in range(9) for s in (None, "a")]


@given(conditions, conditions)
def test_conditions_that_share_an_event_meet(one: Wanted, other: Wanted):
    offers, offer, entry = Offers({}, "UTC"), Entry(1, "b", one.text), Entry(2, LOCAL, other.text)
    offers.learn([entry])
    offers.add(offer)
    shared = any(one.holds(event) and other.holds(event) for event in EVENTS)
    assert [entry] == offers.meeting([entry], "b") or not shared
    assert offers.meeting([entry], "c") == []


def test_disjoint_conditions_do_not_meet():
    offers = Offers({}, "UTC")
    offers.add(Entry(1, "b", "x < 5 AND y = 1"))
    entries = [Entry(n, LOCAL, text) for n, text in enumerate(["x >= 5", "x = 2", "y = 2 OR z = 1", "y IS NULL"], 2)]
    offers.learn(entries)
    assert [entry.number for entry in offers.meeting(entries, "b")] == [3, 4]
    assert np.array_equal(offers.told("c"), [Entry(1, "b", "x < 5 AND y = 1")]) and offers.told("b") == []
