"""Networks by their short names and by their links: distances and intervals against a plain search."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.errors import EarmarkError
from earmark.overlay.simulation.topology import MOST_BROKERS, Topology, topology_of, topology_of_edges

SPECS = ["line:1", "line:2", "line:6", "star:7", "tree:15", "tree:40:3", "random:2", "random:60", "figure-1"]


def side(topology: Topology, broker: int, without: int) -> set[int]:
    """What is on the side of a broker when the link to a neighbour is cut."""
    found, todo = {broker}, [broker]
    for place in todo:
        fresh = [n for n in topology.neighbours[place] if n not in found and (place, n) != (broker, without)]
        found.update(fresh)
        todo.extend(fresh)
    return found


@pytest.mark.parametrize("text", SPECS)
def test_distances_and_intervals(text: str) -> None:
    topology = topology_of(text, seed=3)
    first, last = topology.intervals
    assert sorted(first) == list(range(len(topology.brokers)))
    for one in range(len(topology.brokers)):
        assert topology.distances[one, one] == 0
        for other in topology.neighbours[one]:
            beyond = side(topology, other, one)
            nearer = topology.distances[:, other] < topology.distances[:, one]
            assert set(np.flatnonzero(nearer)) == beyond
            if topology.parent[other] == one and other:
                inside = (first >= first[other]) & (first <= last[other])
                assert set(np.flatnonzero(inside)) == beyond
    assert (topology.distances == topology.distances.T).all()


def test_shapes() -> None:
    assert topology_of("line:4").edges == ((0, 1), (1, 2), (2, 3))
    assert topology_of("star:4").edges == ((0, 1), (0, 2), (0, 3))
    assert topology_of("tree:7").edges == ((0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6))
    assert max(map(len, topology_of("tree:40:3").neighbours)) == 4
    assert len(topology_of("figure-1").brokers) == 11
    assert topology_of("random:30", 1).edges != topology_of("random:30", 2).edges
    assert topology_of("random:30", 1) == topology_of("random:30", 1)
    assert len(topology_of(f"random:{MOST_BROKERS}").edges) == MOST_BROKERS - 1


def test_links_by_name() -> None:
    topology = topology_of_edges([("rome", "oslo"), ("lima", "oslo")])
    assert topology.brokers == ("rome", "oslo", "lima")
    assert topology.edges == ((0, 1), (1, 2))


@pytest.mark.parametrize("text", ["", "ring:4", "line", "line:0", "line:x", "line:4:2", "figure-1:3", "tree:4:0"])
def test_unknown_networks_are_refused(text: str) -> None:
    with pytest.raises(EarmarkError, match="expected a network such as"):
        topology_of(text)


def test_too_large_cyclic_and_apart() -> None:
    with pytest.raises(EarmarkError, match="at most 1,000 brokers, got 1,001"):
        topology_of("line:1001")
    with pytest.raises(EarmarkError, match="without cycles"):
        topology_of_edges([("a", "b"), ("b", "c"), ("c", "a")])
    with pytest.raises(EarmarkError, match="without cycles"):
        topology_of_edges([("a", "b"), ("c", "d")])
    with pytest.raises(EarmarkError, match="a link between two brokers"):
        topology_of_edges([("a", "a")])
    with pytest.raises(EarmarkError, match="at least one link"):
        topology_of_edges([])
