"""Two links and a carrier between them that loses, repeats, reorders, and is cut: what tests of links share."""

from __future__ import annotations

from typing import Any

from earmark.overlay.link import Arrival, Epoch, Frame, Link

Channel = tuple[Epoch, Epoch]


class End:
    """One end, and everything that happened to it, by channel."""

    def __init__(self, name: str, **options: Any) -> None:
        self.name = name
        self.options = options
        self.run = 0
        self.sent: dict[Channel, list[Any]] = {}
        self.arrived: dict[Channel, list[Any]] = {}
        self.undelivered: dict[Channel, list[Any]] = {}
        self.doubtful: dict[Channel, int] = {}
        self.opened: list[Channel] = []
        self.start()

    def start(self) -> None:
        """Start, or start again without any memory but the number of starts."""
        self.unconsumed = 0
        self.run += 1
        self.link: Link[Any] = Link(f"the peer of {self.name}", self.run, **self.options)

    def lose(self, channel: Channel) -> None:
        """Note what the lost channel may not have delivered."""
        self.doubtful[channel] = self.link.doubtful
        self.undelivered[channel] = self.link.take_undelivered()

    @property
    def channel(self) -> Channel:
        assert self.link.peer is not None
        return (self.link.epoch, self.link.peer)

    def send(self, message: Any) -> bool:
        was_open = self.link.is_open
        if not was_open:
            assert not self.link.send(message)
            return False
        channel = self.channel
        self.sent.setdefault(channel, []).append(message)
        if not self.link.send(message):
            assert not self.link.is_open
            self.lose(channel)
        return self.link.is_open

    def consume(self, count: int) -> None:
        """Deal with some messages, if acknowledgements wait for that."""
        if self.link.is_deferred and self.link.is_open:
            count = min(count, self.unconsumed)
            self.unconsumed -= count
            self.link.consume(count)

    def receive(self, frame: Frame[Any], now: float = 0.0) -> Arrival[Any]:
        before = self.channel if self.link.is_open else None
        arrival = self.link.receive(frame, now)
        if arrival.is_lost:
            assert before is not None
            self.lose(before)
        else:
            assert before is None or before == self.channel
        if arrival.is_opened:
            assert self.channel not in self.opened, "a channel is entered once"
            self.opened.append(self.channel)
        if arrival.is_opened:
            self.unconsumed = 0
        if arrival.messages:
            self.unconsumed += len(arrival.messages)
            assert not self.link.is_deferred or self.unconsumed <= self.link.window
            self.arrived.setdefault(self.channel, []).extend(arrival.messages)
        return arrival


class Pair:
    """Ends a and b, and the frames on their way: `ways["a"]` holds those that go to a."""

    def __init__(self, **options: Any) -> None:
        self.now = 0.0
        self.ends = {"a": End("a", **options), "b": End("b", **options)}
        self.ways: dict[str, list[Frame[Any]]] = {"a": [], "b": []}

    def restore(self) -> None:
        for end in self.ends.values():
            end.link.restore()

    def cut(self) -> None:
        for end in self.ends.values():
            end.link.cut()

    def flush(self, name: str, most: int = 1_000) -> None:
        """Put what this end has to say on its way."""
        to = "b" if name == "a" else "a"
        for _ in range(most):
            frame = self.ends[name].link.next_frame(self.now)
            if frame is None:
                return
            self.ways[to].append(frame)
        raise AssertionError("a link never stops talking")

    def deliver(self, to: str, place: int = 0, *, keep: bool = False) -> Arrival[Any]:
        way = self.ways[to]
        frame = way[place] if keep else way.pop(place)
        return self.ends[to].receive(frame, self.now)

    def tick(self, seconds: float) -> None:
        self.now += seconds
        for end in self.ends.values():
            end.link.tick(self.now)

    def settle(self, rounds: int = 200) -> None:
        """Move everything over a carrier that is good from now on, until both ends are silent."""
        for _ in range(rounds):
            for name in ("a", "b"):
                self.ends[name].consume(10**9)
                self.flush(name)
            if not any(self.ways.values()):
                if all(end.link.deadline() is None for end in self.ends.values()):
                    return
                self.tick(1.0)
            for to in ("a", "b"):
                while self.ways[to]:
                    self.deliver(to)
        raise AssertionError("the links did not come to rest")

    def check(self) -> None:
        """What arrived from a channel is a prefix of what was sent; the rest is undelivered, or still there."""
        for name, other in (("a", "b"), ("b", "a")):
            sender, receiver = self.ends[name], self.ends[other]
            for channel, messages in receiver.arrived.items():
                sent = sender.sent.get((channel[1], channel[0]), [])
                assert messages == sent[: len(messages)]
            for channel, undelivered in sender.undelivered.items():
                sent = sender.sent.get(channel, [])
                arrived = receiver.arrived.get((channel[1], channel[0]), [])
                assert sent[len(sent) - len(undelivered) :] == undelivered
                assert len(arrived) + len(undelivered) >= len(sent), "neither arrived nor reported"
                unsent = len(undelivered) - sender.doubtful[channel]
                assert len(arrived) + unsent <= len(sent), "arrived, and reported as never sent"
            link = sender.link
            assert link.queued <= link.most and link.size == link.queued and 0 <= link.fullness <= 1
            assert len(link._early) <= link.ahead
            assert len(link._flying) <= link.window
            assert link._flying_size == len(link._flying)

    def check_settled(self) -> None:
        """Both ends are in one channel, and everything that was put into it has arrived."""
        a, b = self.ends["a"], self.ends["b"]
        assert a.link.is_open and b.link.is_open
        assert a.channel == (b.channel[1], b.channel[0])
        for sender, receiver in ((a, b), (b, a)):
            assert receiver.arrived.get(receiver.channel, []) == sender.sent.get(sender.channel, [])
            assert sender.link.queued == sender.link.size == 0
