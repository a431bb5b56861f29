"""Links: in order and exactly once, whatever the carrier does."""

from __future__ import annotations

import random
from itertools import count
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from earmark.overlay.link import Epoch, Frame, Link
from earmark.overlay.messages import ProtocolError

from .carriers import Pair

NAMES = st.sampled_from(["a", "b"])
PLACES = st.integers(0, 30)


class Carrying(RuleBasedStateMachine):
    """Anything may happen to frames; afterwards a good carrier brings both ends together."""

    options: ClassVar[dict[str, int]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair(most=12, batch=4, batch_size=3, timeout=0.5, ahead=6, **self.options)
        self.numbers = count(1)

    @rule(name=NAMES, n=st.integers(1, 5))
    def send(self, name: str, n: int) -> None:
        for _ in range(n):
            self.pair.ends[name].send(next(self.numbers))

    @rule(name=NAMES)
    def flush(self, name: str) -> None:
        self.pair.flush(name)

    @rule(to=NAMES, place=PLACES)
    def deliver(self, to: str, place: int) -> None:
        if way := self.pair.ways[to]:
            self.pair.deliver(to, place % len(way))

    @rule(to=NAMES)
    def deliver_all(self, to: str) -> None:
        while self.pair.ways[to]:
            self.pair.deliver(to)

    @rule(to=NAMES, place=PLACES)
    def repeat(self, to: str, place: int) -> None:
        if way := self.pair.ways[to]:
            self.pair.deliver(to, place % len(way), keep=True)

    @rule(to=NAMES, place=PLACES)
    def lose(self, to: str, place: int) -> None:
        if way := self.pair.ways[to]:
            way.pop(place % len(way))

    @rule(both=st.booleans(), name=NAMES, drops=st.booleans())
    def cut(self, both: bool, name: str, drops: bool) -> None:
        """One end may notice before the other; frames on their way may be lost, or come late."""
        for end in ("a", "b") if both else (name,):
            self.pair.ends[end].link.cut()
        if drops:
            for way in self.pair.ways.values():
                way.clear()

    @rule(both=st.booleans(), name=NAMES)
    def restore(self, both: bool, name: str) -> None:
        for end in ("a", "b") if both else (name,):
            self.pair.ends[end].link.restore()

    @rule(name=NAMES)
    def start_again(self, name: str) -> None:
        self.pair.ends[name].start()

    @rule(name=NAMES)
    def give_up(self, name: str) -> None:
        end = self.pair.ends[name]
        if end.link.is_open:
            channel = end.channel
            end.link.reset()
            end.lose(channel)

    @rule(name=NAMES, n=st.integers(1, 5))
    def consume(self, name: str, n: int) -> None:
        self.pair.ends[name].consume(n)

    @rule(seconds=st.floats(0.1, 5))
    def tick(self, seconds: float) -> None:
        self.pair.tick(seconds)

    @invariant()
    def what_arrived_was_sent(self) -> None:
        self.pair.check()

    def teardown(self) -> None:
        self.pair.restore()
        self.pair.settle()
        self.pair.check()
        self.pair.check_settled()
        for name in ("a", "b"):
            assert self.pair.ends[name].send(next(self.numbers))
        self.pair.settle()
        self.pair.check_settled()


class CarryingDeferred(Carrying):
    """The same, where acknowledgements wait until messages are dealt with."""

    options: ClassVar[dict[str, int]] = {"window": 5, "is_deferred": True}


TestCarrying = Carrying.TestCase
TestCarrying.settings = settings(max_examples=40, stateful_step_count=50)
TestCarryingDeferred = CarryingDeferred.TestCase
TestCarryingDeferred.settings = settings(max_examples=40, stateful_step_count=50)


@pytest.mark.parametrize("cuts", [0.0, 0.01])
@pytest.mark.parametrize(("loss", "repetition", "ahead"), [(0.0, 0.0, 0), (0.3, 0.2, 64), (0.5, 0.5, 4)])
def test_a_bad_carrier_brings_everything(loss: float, repetition: float, ahead: int, cuts: float) -> None:
    rng = random.Random(7)
    pair = Pair(most=10_000, batch=16, batch_size=16, timeout=0.1, ahead=ahead)
    pair.restore()
    pair.settle()
    for number in range(2_000):
        for end in pair.ends.values():
            assert end.send(number)
    for _ in range(10_000):
        if not any(end.link.queued for end in pair.ends.values()):
            break
        pair.tick(0.05)
        for name in ("a", "b"):
            pair.flush(name)
            way = pair.ways[name]
            if ahead:
                rng.shuffle(way)
            while way:
                if rng.random() < loss:
                    way.pop(0)
                else:
                    pair.deliver(name, keep=rng.random() < repetition)
        if rng.random() < cuts:
            pair.cut()
            for way in pair.ways.values():
                way.clear()
            pair.restore()
    assert not any(end.link.queued for end in pair.ends.values())
    pair.settle()
    pair.check_settled()
    assert [len(end.opened) for end in pair.ends.values()] == [1, 1], "no cut reset the link"


def test_batches_and_one_acknowledgement_for_many_messages() -> None:
    pair = Pair(batch=100, batch_size=1_000)
    pair.restore()
    pair.settle()
    for number in range(250):
        pair.ends["a"].send(number)
    pair.flush("a")
    assert [len(frame.messages) for frame in pair.ways["b"]] == [100, 100, 50]
    while pair.ways["b"]:
        pair.deliver("b")
    pair.flush("b")
    (answer,) = pair.ways["a"]
    assert (answer.received, answer.messages) == (250, ())


def test_a_large_message_travels_alone() -> None:
    link: Link[str] = Link("b", 1, batch_size=10)
    other: Link[str] = Link("a", 1)
    link.restore()
    other.restore()
    _exchange(link, other)
    for message in ("x", "y" * 50, "z", "w"):
        link.send(message, len(message))
    frames = list(iter(link.next_frame, None))
    assert [frame.messages for frame in frames] == [("x",), ("y" * 50,), ("z", "w")]


def test_what_the_peer_has_is_not_sent_again_after_a_cut() -> None:
    pair = Pair(batch=1)
    pair.restore()
    pair.settle()
    for number in range(10):
        pair.ends["a"].send(number)
    pair.flush("a")
    for _ in range(6):
        pair.deliver("b")
    pair.cut()
    pair.ways["b"].clear()
    pair.restore()
    for name in ("a", "b"):
        pair.flush(name)
    for name in ("a", "b"):
        pair.deliver(name)
    pair.flush("a")
    assert [frame.messages for frame in pair.ways["b"]] == [(6,), (7,), (8,), (9,)]


def test_a_full_queue_resets_the_link_and_reports_what_was_in_it() -> None:
    pair = Pair(most=5)
    pair.restore()
    pair.settle()
    pair.cut()
    a, b = pair.ends["a"], pair.ends["b"]
    assert [a.send(number) for number in range(6)] == [True] * 5 + [False]
    assert list(a.undelivered.values()) == [[0, 1, 2, 3, 4, 5]]
    assert not a.send(6)
    pair.restore()
    pair.settle()
    assert len(a.opened) == len(b.opened) == 2 and b.undelivered == {b.opened[0]: []}
    assert a.send(7)
    pair.settle()
    assert b.arrived == {b.channel: [7]}


def test_fullness_counts_messages_and_size() -> None:
    link: Link[str] = Link("b", 1, most=10, most_size=100)
    other: Link[str] = Link("a", 1)
    link.restore()
    other.restore()
    _exchange(link, other)
    link.send("x", 5)
    assert link.fullness == 0.1
    link.send("y", 45)
    assert (link.fullness, link.size, link.queued) == (0.5, 50, 2)


def test_a_slow_receiver_holds_one_window_and_the_sender_sees_its_queue_fill() -> None:
    pair = Pair(most=100, batch=4, batch_size=4, window=10, is_deferred=True)
    pair.restore()
    pair.settle()
    a, b = pair.ends["a"], pair.ends["b"]
    for number in range(50):
        assert a.send(number)
    for _ in range(5):
        pair.flush("a")
        while pair.ways["b"]:
            pair.deliver("b")
        pair.flush("b")
        while pair.ways["a"]:
            pair.deliver("a")
    assert len(b.arrived[b.channel]) == 10 and a.link.fullness == 0.5
    b.consume(3)
    pair.flush("b")
    pair.deliver("a")
    assert a.link.fullness == 0.47
    pair.flush("a")
    assert [frame.messages for frame in pair.ways["b"]] == [(10, 11, 12)]


def test_a_sender_that_ignores_the_window_is_refused() -> None:
    link: Link[str] = Link("b", 1, ahead=0, batch=8, window=10, is_deferred=True)
    other: Link[str] = Link("a", 1, batch=8)
    link.restore()
    other.restore()
    _exchange(link, other)
    for _ in range(50):
        other.send("x")
    frames = list(iter(other.next_frame, None))
    with pytest.raises(ProtocolError, match=r"^b: expected at most 10 messages before an acknowledgement"):
        list(map(link.receive, frames))


def test_a_restarted_peer_resets_the_link_and_late_frames_bring_nothing() -> None:
    pair = Pair()
    pair.restore()
    pair.settle()
    a, b = pair.ends["a"], pair.ends["b"]
    a.send("old")
    pair.flush("a")
    (late,) = pair.ways["b"]
    pair.ways["b"].clear()
    b.start()
    pair.cut()
    pair.restore()
    pair.settle()
    assert a.undelivered == {a.opened[0]: ["old"]}
    assert b.receive(late).messages == () and not b.arrived
    pair.settle()
    pair.check_settled()


def test_a_run_that_does_not_rise_is_an_error_on_its_own_side() -> None:
    pair = Pair()
    pair.restore()
    pair.settle()
    pair.ends["b"].start()
    pair.settle()
    pair.restore()
    pair.settle()
    forgetful: Link[str] = Link("a", 1)
    forgetful.restore()
    greeting = forgetful.next_frame()
    assert greeting is not None
    pair.ends["a"].link.receive(greeting)
    answer = pair.ends["a"].link.next_frame()
    assert answer is not None
    with pytest.raises(ProtocolError, match=r"^a: knows this end as run 2\.0, but it is run 1\.0; the run must rise"):
        forgetful.receive(answer)
    assert not forgetful.is_open


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"received": 9}, r"acknowledged message 9, but only 1 were sent"),
        ({"received": -1}, r"a frame with number"),
        ({"number": 0}, r"a frame with number 0"),
        ({"number": 3, "messages": ("x",)}, r"expected message 1, got 3"),
        ({"messages": ("x",) * 9}, r"a frame with number 1, 9 messages"),
        ({"peer": Epoch(4, 0)}, r"knows this end as run 4\.0"),
    ],
)
def test_frames_that_no_honest_peer_sends_change_nothing(change: dict[str, object], message: str) -> None:
    link: Link[str] = Link("b", 1, ahead=0, batch=8)
    other: Link[str] = Link("a", 1)
    link.restore()
    other.restore()
    _exchange(link, other)
    link.send("y")
    link.next_frame()
    frame: Frame[str] = Frame(other.epoch, link.epoch, 0, 1, ())
    before = {name: value for name, value in vars(link).items()}
    with pytest.raises(ProtocolError, match=f"^b: {message}"):
        link.receive(frame._replace(**change))  # type: ignore[arg-type]
    assert vars(link) == before
    assert link.receive(frame._replace(messages=("good",))).messages == ("good",)


def _exchange(one: Link[str], other: Link[str]) -> None:
    for _ in range(10):
        for sender, receiver in ((one, other), (other, one)):
            for frame in iter(sender.next_frame, None):
                receiver.receive(frame)
