"""`earmark warm` leaves nothing to compile for brokers."""

from __future__ import annotations

import pytest
from tests.overlay.network import Network

from earmark.jit import JIT, note
from earmark.overlay.messages import Advertise
from earmark.overlay.offers import meets_any
from earmark.overlay.warming import warm_brokers

pytestmark = pytest.mark.skipif(not JIT, reason="kernels are plain Python in this run")


def test_a_network_with_advertisements_compiles_nothing() -> None:
    warm_brokers()
    assert meets_any.signatures  # clauses_meet is part of it, and has none of its own where it came from the cache
    before = note.compiled
    network = Network([("a", "b"), ("b", "c")], advertisements=True)
    network.run()
    network.request("bob@c", Advertise, 1, "x > 3")
    network.run()
    network.subscribe("ann@a", 1, "x > 5 AND y = 2")
    network.run()
    network.publish("bob@c", {"x": 7, "y": 2})
    network.run()
    assert network.inbox("ann@a") == [({"x": 7, "y": 2}, (1,))]
    assert note.compiled == before
