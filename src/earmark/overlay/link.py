"""One end of a link: messages to one peer and from it, in order and exactly once, over a carrier that may fail.

A carrier is whatever moves frames: a TCP connection, a queue in a simulator. It may be cut and restored at any time; it
may lose, repeat and reorder frames. A link hides all of that, as long as its queue has room and both ends live:

    sender    1 2 3 4 5 6 7 8 9           send() appends here
              └─┬─┘ └─┬─┘ └─┬─┘
       acknowledged  flying  waiting      fullness = (flying + waiting) / bound
                                          frame(number=3, messages=(3, 4), received=…)
    receiver  1 2 3 4 . 6                 6 is kept until 5 arrives, and acknowledged with it

**Channels.** Each end has an epoch, a pair (run, resets), which only ever rises: the run with each start of the
program, the resets each time this end gives up. A channel is the pair of the epochs of both ends. Each frame
names it, numbers count from 1 in it, and a frame of another channel delivers nothing. When an end hears of a higher
epoch of its peer, or gives up itself because its queue is full, the channel is lost and a new, empty one begins.
Both ends enter a channel at most once, so they agree on what it held:

    what the receiver got from a channel is a prefix of what the sender put into it, nothing twice; and when the channel
    is lost, `take_undelivered()` has at least whatever of it did not arrive

**How to drive it.** Nothing here reads a clock or does input and output.

    link = Link("b2", run=1, timeout=0.2)       # at both ends; timeout=None if the carrier itself resends, as TCP does
    link.restore()                              # a carrier is there; cut() when it is gone, restore() for the next one
    if not link.send(message, size): …          # False: the channel is gone; see below
    while frame := link.next_frame(now): …      # put each on the carrier; messages are packed into batches
    arrival = link.receive(frame, now)          # see arrival.is_lost, .is_opened, .messages, in this order
    link.tick(now)                              # at link.deadline() or later: whatever is overdue is sent again

Call `next_frame` until it returns None after every other call, or, with a slow carrier, whenever the carrier has room:
what waits longer goes out in larger batches.

For a broker: `is_lost` means `broker.disconnect(peer)`, `is_opened` means `broker.connect(peer)`, and `messages` go to
`broker.receive`. When `send` returns False and the link was open before, the queue was full: the channel is lost, so
call `broker.disconnect(peer)`; a later `receive` says `is_opened`. Whoever has other work should look at `fullness`
and stop taking in messages before that. A cut alone loses nothing, and the broker need not know of it.

**Back-pressure.** With `window`, no more than that many messages are on their way unacknowledged. With
`is_deferred=True` messages are acknowledged by `consume(n)`, when they have been dealt with, instead of on arrival: a
receiver that is slow holds one window of messages, and the rest waits at the sender, whose `fullness` rises. Frames
should be received at all times, since they also bring acknowledgements for the other direction.

**Goodbye.** An end that is told to stop puts `last_frame` on the carrier, and consumes nothing more. So the peer knows
exactly what was handled: nothing of what its `take_undelivered` has later is doubtful.

**Complexity.** O(1) per message sent, received or acknowledged. Memory is bounded by `most` messages and `most_size`
(in whatever unit `send` is given) for the queue, and by `ahead` messages that arrived too early.
"""

from __future__ import annotations

from collections import deque
from itertools import chain, islice
from typing import Generic, NamedTuple, TypeVar

from earmark.overlay.messages import ProtocolError

T = TypeVar("T")
LONGEST_WAIT = 8
"""Repeated timeouts double the wait up to this multiple of it."""


class Epoch(NamedTuple):
    """One life of one end: which start of the program, and how often this end gave up since."""

    run: int
    resets: int


class Frame(NamedTuple, Generic[T]):
    """What a carrier moves."""

    epoch: Epoch
    """Of the sender."""
    peer: Epoch | None
    """Of the receiver, as far as the sender knows it."""
    received: int
    """Every message of this channel up to this number has arrived at the sender of this frame."""
    number: int
    """Of the first message; the others follow in order."""
    messages: tuple[T, ...]
    asks: bool = False
    """The sender waits for a frame, even an empty one, before it goes on."""
    is_last: bool = False
    """The sender ends. Whatever it has not acknowledged it has not handled, and will not."""


class Arrival(NamedTuple, Generic[T]):
    """What a frame brought, in the order in which it happened."""

    is_lost: bool
    is_opened: bool
    messages: tuple[T, ...]


class Link(Generic[T]):
    """One end of a link to a peer; the module's text says how to drive it.

    name: of the peer, for error messages.
    run: rises with each start of this end.
    resets: with which number of resets to begin; above that of any earlier link of this run to this peer.
    most, most_size: bounds of the queue; a message that does not fit resets the link.
    batch, batch_size: a frame takes at most this many messages, and no further one once it has this size.
    timeout: seconds after which whatever is not acknowledged is sent again; None if the carrier never loses a frame
        while it lasts.
    ahead: messages that may wait for an earlier one; 0 means that the carrier keeps order and a gap is an error.
    window, window_size: no further frame is sent while this much is on its way; the same at both ends.
    is_deferred: acknowledge what `consume` says, not what has arrived.
    """

    def __init__(
        self,
        name: str,
        run: int,
        *,
        resets: int = 0,
        most: int = 65_536,
        most_size: int = 1 << 26,
        batch: int = 512,
        batch_size: int = 1 << 16,
        timeout: float | None = None,
        ahead: int = 4_096,
        window: int = 65_536,
        window_size: int = 1 << 26,
        is_deferred: bool = False,
    ) -> None:
        self.name = name
        self.epoch = Epoch(run, resets)
        self._first = resets
        self.peer: Epoch | None = None
        self.is_open = False
        self.most, self.most_size = most, most_size
        self.batch, self.batch_size = batch, batch_size
        self.timeout, self.ahead = timeout, ahead
        self.window, self.window_size, self.is_deferred = window, window_size, is_deferred
        self.doubtful = 0
        """How many of the undelivered messages, from the first, were sent and may have arrived."""
        self._is_carried = False
        self._undelivered: list[T] = []
        self._begin()

    def _begin(self) -> None:
        """Forget the channel."""
        self._flying: deque[tuple[T, int]] = deque()
        self._waiting: deque[tuple[T, int]] = deque()
        self._size = 0
        self._flying_size = 0
        self._acknowledged = 0  # by the peer
        self._sent = 0  # the highest number that was in any frame
        self._received = 0
        self._unconsumed = 0
        self._early: dict[int, T] = {}
        self._greets = self._is_carried
        self._is_heard = False  # since the carrier is there; until then it is unknown where to go on
        self._owes = False  # an acknowledgement
        self._resends = False
        self._recover = 0  # what was sent before the last timeout: an acknowledgement below shows another gap
        self._due: float | None = None
        self._wait = self.timeout

    @property
    def channel(self) -> tuple[Epoch, Epoch | None]:
        """Names the channel; never the same again once it is lost."""
        return self.epoch, self.peer

    @property
    def resets(self) -> int:
        """How often this end gave up."""
        return self.epoch.resets - self._first

    @property
    def is_up(self) -> bool:
        """Whether the channel is open, and the peer has said so on the last carrier."""
        return self.is_open and self._is_heard

    # --- the carrier --------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """There is a carrier."""
        self._waiting.extendleft(reversed(self._flying))
        self._flying.clear()
        self._flying_size = 0
        self._is_carried = self._greets = True
        self._is_heard = self._owes = self._resends = False
        self._recover, self._due, self._wait = 0, None, self.timeout

    def cut(self) -> None:
        """The carrier is gone. Messages wait for the next one."""
        self._is_carried = self._greets = False
        self._due = None

    def next_frame(self, now: float = 0.0) -> Frame[T] | None:
        """Return the next frame for the carrier, or None if there is nothing to say."""
        if not self._is_carried:
            return None
        if self._greets:
            self._greets = self._owes = False
            return self._frame((), now, asks=True)
        if not (self.is_open and self._is_heard):
            return None
        if self._resends:
            self._resends = False
            return self._frame(self._batch(self._flying, self.batch), now, number=self._acknowledged + 1)
        room = self.window - len(self._flying)
        if self._waiting and room > 0 and self._flying_size < self.window_size:
            number = self._acknowledged + len(self._flying) + 1
            messages = self._batch(self._waiting, room)
            for _ in messages:
                entry = self._waiting.popleft()
                self._flying.append(entry)
                self._flying_size += entry[1]
            self._sent = max(self._sent, number + len(messages) - 1)
            return self._frame(messages, now, number=number)
        return self._frame((), now) if self._owes else None

    def last_frame(self) -> Frame[T] | None:
        """Return the frame that says goodbye; None unless the channel is up. Nothing may be consumed after it."""
        return self._frame((), 0.0)._replace(is_last=True) if self.is_up else None

    def _batch(self, queue: deque[tuple[T, int]], room: int) -> tuple[T, ...]:
        messages: list[T] = []
        size = 0
        for message, its_size in islice(queue, min(self.batch, room)):
            if messages and size + its_size > self.batch_size:
                break
            messages.append(message)
            size += its_size
        return tuple(messages)

    def _frame(self, messages: tuple[T, ...], now: float, *, number: int | None = None, asks: bool = False) -> Frame[T]:
        self._owes = False
        if self._due is None and self._wait is not None and (messages or asks):
            self._due = now + self._wait
        if number is None:
            number = self._sent + 1
        return Frame(self.epoch, self.peer, self._received - self._unconsumed, number, messages, asks)

    # --- time ---------------------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """Return when `tick` will have something to do, or None if it has not."""
        return self._due

    def tick(self, now: float) -> None:
        """Send again whatever is overdue at this time, in seconds of any origin."""
        if self._due is None or now < self._due or self._wait is None or self.timeout is None:
            return
        self._due = None
        self._wait = min(self._wait * 2, self.timeout * LONGEST_WAIT)
        if not (self.is_open and self._is_heard):
            self._greets = self._is_carried
        elif self._flying:
            self._resends, self._recover = True, self._sent

    # --- messages -----------------------------------------------------------------------------------------------

    @property
    def queued(self) -> int:
        """Number of messages that the peer has not acknowledged."""
        return len(self._flying) + len(self._waiting)

    @property
    def acknowledged(self) -> int:
        """How many messages of this channel the peer has acknowledged."""
        return self._acknowledged

    @property
    def size(self) -> int:
        """Their size."""
        return self._size

    @property
    def fullness(self) -> float:
        """How full the queue is, from 0 to 1."""
        return max(self.queued / self.most, self._size / self.most_size)

    def send(self, message: T, size: int = 1) -> bool:
        """Queue a message. Return False if there is no channel, or no longer, because the queue is full."""
        if not self.is_open:
            return False
        if self.queued >= self.most or self._size + size > self.most_size:
            self.reset()
            self._undelivered.append(message)
            return False
        self._waiting.append((message, size))
        self._size += size
        return True

    def reset(self) -> None:
        """Give up the channel: the peer will hear that a new one begins."""
        self._lose()
        self.epoch = Epoch(self.epoch.run, self.epoch.resets + 1)

    def _lose(self) -> bool:
        """End the channel; return whether there was one."""
        was_open, self.is_open = self.is_open, False
        if was_open:
            self._undelivered = [message for message, _ in chain(self._flying, self._waiting)]
            self.doubtful = self._sent - self._acknowledged
        self._begin()
        return was_open

    def take_undelivered(self) -> list[T]:
        """Return the messages that were not acknowledged when the last channel was lost, in order; some may have
        arrived. The list is empty the next time."""
        messages, self._undelivered, self.doubtful = self._undelivered, [], 0
        return messages

    def receive(self, frame: Frame[T], now: float = 0.0) -> Arrival[T]:
        """Take a frame from the carrier and return what it brought.

        Raises ProtocolError, which names the peer, for a frame that no honest peer sends; it changes nothing.
        """
        self._check(frame)
        if self.peer is not None and frame.epoch < self.peer:  # late, or from an end that lost count of its runs
            self._greets = self._is_carried
            return Arrival(False, False, ())
        is_lost = is_opened = False
        if frame.epoch != self.peer:
            is_lost = self._lose()
            self.peer = frame.epoch
        if not self.is_open:
            self.is_open = is_opened = True
        if frame.peer != self.epoch:  # the peer does not know this end yet
            self._greets = self._is_carried
            return Arrival(is_lost, is_opened, ())
        if not self._is_heard:
            self._is_heard, self._greets, self._due = True, False, None
        self._owes |= frame.asks or bool(frame.messages)
        self._acknowledge(frame.received, now)
        if frame.is_last:
            self._take_back()
        return Arrival(is_lost, is_opened, self._arrived(frame))

    def _take_back(self) -> None:
        """The peer will not handle what it has not acknowledged: it is as if it had not been sent."""
        self._waiting.extendleft(reversed(self._flying))
        self._flying.clear()
        self._flying_size = 0
        self._sent, self._is_heard, self._due = self._acknowledged, False, None

    def _check(self, frame: Frame[T]) -> None:
        if frame.peer is not None and frame.peer > self.epoch:
            raise ProtocolError(
                f"{self.name}: knows this end as run {frame.peer.run}.{frame.peer.resets}, but it is run "
                f"{self.epoch.run}.{self.epoch.resets}; the run must rise with each start, and names must be unique"
            )
        if frame.number < 1 or frame.received < 0 or len(frame.messages) > self.batch:
            raise ProtocolError(f"{self.name}: a frame with number {frame.number}, {len(frame.messages)} messages")
        if frame.peer != self.epoch or (self.peer is not None and frame.epoch < self.peer):
            return  # of another channel, so nothing in it counts
        is_new = frame.epoch != self.peer
        sent, received = (0, 0) if is_new else (self._sent, self._received)
        if not is_new and self._unconsumed + len(frame.messages) > self.window + self.batch:
            raise ProtocolError(f"{self.name}: expected at most {self.window:,} messages before an acknowledgement")
        if frame.received > sent:
            raise ProtocolError(f"{self.name}: acknowledged message {frame.received}, but only {sent} were sent")
        if not self.ahead and frame.messages and frame.number > received + 1:
            raise ProtocolError(f"{self.name}: expected message {received + 1}, got {frame.number}")

    def _acknowledge(self, received: int, now: float) -> None:
        if received <= self._acknowledged:
            return
        while self._acknowledged < received:
            if self._flying:
                size = self._flying.popleft()[1]
                self._flying_size -= size
            else:  # sent on an earlier carrier
                size = self._waiting.popleft()[1]
            self._size -= size
            self._acknowledged += 1
        self._wait, self._resends = self.timeout, False
        self._due = now + self._wait if self._flying and self._wait is not None else None
        if self._flying and received < self._recover:
            self._resends = True

    def consume(self, count: int) -> None:
        """Acknowledge this many more of the messages that have arrived, in order; for `is_deferred`.

        Those of an earlier channel are no longer acknowledged, so there may be fewer.
        """
        if count := min(count, self._unconsumed):
            self._unconsumed -= count
            self._owes = True

    def _arrived(self, frame: Frame[T]) -> tuple[T, ...]:
        messages = self._in_order(frame)
        if self.is_deferred:
            self._unconsumed += len(messages)
        return messages

    def _in_order(self, frame: Frame[T]) -> tuple[T, ...]:
        if frame.number > self._received + 1:
            for number, message in enumerate(frame.messages, frame.number):
                if len(self._early) < self.ahead:
                    self._early.setdefault(number, message)
            return ()
        messages = frame.messages[self._received + 1 - frame.number :]
        if not messages:
            return ()
        self._received += len(messages)
        if not self._early:
            return messages
        following = list(messages)
        while self._received + 1 in self._early:
            self._received += 1
            following.append(self._early.pop(self._received))
        self._early = {number: message for number, message in self._early.items() if number > self._received}
        return tuple(following)
