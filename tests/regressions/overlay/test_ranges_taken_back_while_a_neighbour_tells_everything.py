"""A neighbour that had started again told its own ranges, and took them back: they counted for brokers behind it, too.

It did not know yet what those want, so that nothing was sent there until they had told it: seed 10 of the soak test
missed four deliveries.
"""

from __future__ import annotations

import pytest
from tests.overlay.ranges import IN_RANGES, RANGES, SPACE

from earmark.overlay.broker import Broker, Party
from earmark.overlay.messages import (
    Hello,
    Message,
    Publication,
    Publish,
    Resynchronise,
    Synchronised,
    UnwantRanges,
    WantRanges,
)
from earmark.overlay.space import Grid

ALL = ((0, Grid(SPACE).last),)


@pytest.mark.parametrize("name", IN_RANGES)
def test_what_it_wanted_before_counts_until_it_has_told_everything(name: str) -> None:
    policy, options = RANGES[name]
    broker, b, ann = Broker("a", policy=policy, options=options, neighbours=["b"]), Party("broker", "b"), "ann"
    broker.attach(ann)

    def told(*messages: Message) -> None:
        broker.receive_many([(message, b) for message in messages])

    def is_sent(number: int) -> bool:
        sent = broker.receive(Publish(number, {"x": 3, "y": 7}), Party("client", ann))
        return any(party == b and isinstance(message, Publication) for party, message in sent)

    space = SPACE.number
    broker.connect("b")
    told(Hello("b", 1, policy, space), Resynchronise(1, space), WantRanges(2, space, ALL), Synchronised(3))
    assert is_sent(1)
    broker.disconnect("b")
    broker.connect("b")
    told(Hello("b", 2, policy, space), Resynchronise(1, space))
    told(WantRanges(2, space, ALL))
    assert is_sent(2)
    told(UnwantRanges(3, space, ALL))
    assert is_sent(3)
    told(WantRanges(4, space, ((0, 0),)), UnwantRanges(5, space, ((0, 0),)))
    told(Synchronised(6))
    assert not is_sent(4)
