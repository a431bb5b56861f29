"""The first frame of a channel could acknowledge messages that were never sent: an IndexError stopped the broker."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

from earmark.overlay.link import Epoch, Frame, Link
from earmark.overlay.messages import ProtocolError


def fresh(ahead: int = 0) -> Link[Any]:
    link: Link[Any] = Link("client 'x'", 7, ahead=ahead, batch=8)
    link.restore()
    link.next_frame()
    return link


def test_nothing_can_be_acknowledged_in_a_channel_that_begins() -> None:
    link = fresh()
    with pytest.raises(ProtocolError, match=r"^client 'x': acknowledged message 5, but only 0 were sent"):
        link.receive(Frame(Epoch(1, 0), Epoch(7, 0), 5, 1, ()))
    assert link.peer is None and not link.is_open
    assert link.receive(Frame(Epoch(1, 0), Epoch(7, 0), 0, 1, ("one",))).messages == ("one",)


def test_what_the_channel_before_had_does_not_count() -> None:
    link = fresh()
    link.receive(Frame(Epoch(1, 0), Epoch(7, 0), 0, 1, ("one",)))
    link.send("a")
    link.next_frame()
    for frame in (Frame(Epoch(2, 0), Epoch(7, 0), 1, 1, ()), Frame(Epoch(2, 0), Epoch(7, 0), 0, 2, ("two",))):
        with pytest.raises(ProtocolError, match=r"^client 'x': "):
            link.receive(frame)
    assert link.is_open and link.queued == 1


def test_messages_begin_with_the_first_unless_they_may_be_early() -> None:
    frame = Frame(Epoch(1, 0), Epoch(7, 0), 0, 3, ("three",))
    with pytest.raises(ProtocolError, match="client 'x': expected message 1, got 3"):
        fresh().receive(frame)
    assert fresh(ahead=4).receive(frame) == (False, True, ())


@pytest.mark.parametrize("ahead", [0, 4])
def test_whatever_a_frame_says_only_the_protocol_is_broken(ahead: int) -> None:
    choose = random.Random(7)
    link = fresh(ahead)
    for step in range(4_000):
        if step % 50 == 0:
            link = fresh(ahead)
        frame = Frame(
            Epoch(choose.randrange(1, 3), choose.randrange(2)),
            choose.choice([None, link.epoch, link.epoch, link.epoch, Epoch(6, 0), Epoch(8, 0)]),
            choose.choice([0, 0, 0, 1, 2, 5, 2**63 - 1]),
            choose.choice([0, 1, 1, 2, 3, 9, 2**63 - 1]),
            tuple(range(choose.choice([0, 0, 1, 2, 9]))),
            choose.random() < 0.5,
        )
        with contextlib.suppress(ProtocolError):
            link.receive(frame)
        if choose.random() < 0.1:
            choose.choice([link.reset, link.cut, link.restore])()
        link.send(step)
        link.next_frame()
        assert 0 <= link.queued <= link.size
