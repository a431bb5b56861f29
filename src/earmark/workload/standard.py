"""The standard workloads: seeded, the same on every machine, so that engines are judged on the same data.

    w1    attribute sets clustered: 80 % of the subscriptions use 8 of the 15 attributes of some event and contain
          its values; 20 % are uniform background. About 10 / 103 / 1,028 matches an event at 10k / 100k / 1M
    w1u   as w1, but attribute sets are uniform; half of the events are built around a subscription. About 0.5 matches
          an event at every size
    w1z   as w1u, but attributes are drawn by Zipf(1), so that a few are in nearly everything
    w2    5 dense attributes over 0..999, widths by Zipf over 1..200, 70 % of subscriptions and events in 4 hot
          spots. About 0.5 / 4.4 / 47.6 matches an event

A workload is a million subscriptions and a thousand events. A smaller one is a prefix: the same events, the first so
many subscriptions. Asked for by `subscriptions`, it takes a second or two instead of the half minute of a whole w1.
An event matches a subscription when each of its closed intervals contains the event's value.

Bit for bit: which numbers are drawn, in which order and from which stream, is fixed; a test pins their checksums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.flat.types import I32, I64, frozen
from earmark.segment.arrays import SegmentArrays

SUBSCRIPTIONS = 1_000_000
EVENTS = 1_000
CHUNK = 50_000

Floats = NDArray[np.float64]


class Workload(NamedTuple):
    """Subscriptions and events as rectangles of numbers; attributes ascend in each row."""

    sub_attr: I32
    sub_lo: I64
    sub_hi: I64
    event_attr: I32
    event_value: I64
    attributes: int
    domain: int

    def head(self, subscriptions: int) -> Workload:
        """The same with only the first so many subscriptions."""
        return self._replace(
            sub_attr=self.sub_attr[:subscriptions],
            sub_lo=self.sub_lo[:subscriptions],
            sub_hi=self.sub_hi[:subscriptions],
        )

    def table(self) -> SegmentArrays:
        """The subscriptions as table arrays: one clause a slot, one interval a constraint, sequence = slot."""
        slots, width = self.sub_attr.shape
        constraints = slots * width
        columns = (
            np.arange(slots + 1, dtype=np.int32),
            np.arange(0, constraints + 1, width, dtype=np.int32),
            self.sub_attr.ravel(),
            np.zeros(constraints, np.uint8),
            np.arange(constraints + 1, dtype=np.int32),
            self.sub_lo.ravel(),
            self.sub_hi.ravel(),
            np.empty(0),
            np.empty(0),
            np.arange(slots, dtype=np.int64),
        )
        return SegmentArrays._make(frozen(column.view()) for column in columns)

    def events(self) -> EventArrays:
        """The events, every value a point."""
        count, width = self.event_attr.shape
        start = np.arange(0, count * width + 1, width, dtype=np.int64)
        keys = self.event_value.ravel()
        columns = (start, self.event_attr.ravel(), keys, keys, np.empty(0))
        return EventArrays._make(frozen(column.view()) for column in columns)


def w1(seed: int = 20240601, subscriptions: int = SUBSCRIPTIONS) -> Workload:
    """400 attributes, 8 a subscription, 15 an event, in clusters around 500 profiles of two events each."""
    chunks = _chunks(subscriptions)
    attributes, used, carried, centres_each = 400, 8, 15, 4
    domain, spread, widest, jitter, targeted_share = 250_000_000, 100, 60, 3, 0.8
    random = np.random.default_rng(seed)
    centres = np.sort(random.integers(1000, domain - 1000, size=(attributes, centres_each), dtype=np.int64), axis=1)

    profiles = EVENTS // 2
    profile_attr = np.sort(_distinct(random, profiles, attributes, carried).astype(np.int32), axis=1)
    which = random.integers(0, centres_each, size=(profiles, carried))
    value = centres[profile_attr, which] + random.integers(-spread, spread + 1, size=(profiles, carried))
    event_attr = profile_attr.repeat(2, axis=0)
    event_value = value.repeat(2, axis=0) + random.integers(-jitter, jitter + 1, size=(EVENTS, carried))
    order = random.permutation(EVENTS)
    event_attr, event_value = event_attr[order], event_value[order]

    parts = []
    for _ in range(chunks):
        shape = (CHUNK, used)
        targeted = (random.random(CHUNK) < targeted_share)[:, None]
        event = random.integers(0, EVENTS, size=CHUNK)[:, None]
        place = _distinct(random, CHUNK, carried, used)
        far_attr = _distinct(random, CHUNK, attributes, used).astype(np.int32)
        far_centre = centres[far_attr, random.integers(0, centres_each, size=shape)]
        far_value = far_centre + random.integers(-spread, spread + 1, size=shape)
        attr = np.where(targeted, event_attr[event, place], far_attr)
        inside = np.where(targeted, event_value[event, place], far_value)
        width = random.integers(1, widest + 1, size=shape)
        lo = inside - (random.random(shape) * width).astype(np.int64)
        by_attr = np.argsort(attr, axis=1)
        parts.append([np.take_along_axis(column, by_attr, 1) for column in (attr, lo, lo + width - 1)])
    sub_attr, sub_lo, sub_hi = (np.concatenate(column) for column in zip(*parts, strict=True))
    whole = Workload(sub_attr, sub_lo, sub_hi, event_attr, event_value, attributes, domain)
    return whole.head(subscriptions)


def w1u(seed: int = 20240603, subscriptions: int = SUBSCRIPTIONS) -> Workload:
    """The sizes of w1, attributes uniform and independent of the events."""
    return _independent(seed, subscriptions, np.ones(400))


def w1z(seed: int = 20240604, subscriptions: int = SUBSCRIPTIONS) -> Workload:
    """The sizes of w1, attribute i drawn with odds 1 / (i + 1), independent of the events."""
    return _independent(seed, subscriptions, 1.0 / np.arange(1, 401))


def _independent(seed: int, subscriptions: int, odds: Floats) -> Workload:
    attributes, used, carried, centres_each = len(odds), 8, 15, 4
    domain, spread, widest, sources = 250_000_000, 100, 60, 10_000
    chunks = _chunks(subscriptions)
    random = np.random.default_rng(seed)
    centres = random.integers(1000, domain - 1000, size=(attributes, centres_each), dtype=np.int64)
    log_odds = np.log(odds)

    def drawn_attributes(rows: int, chosen: int) -> I32:
        """In each row, `chosen` different attributes, by their odds (the greatest of Gumbel variables), ascending."""
        gumbel = log_odds - np.log(-np.log(random.random((rows, attributes))))
        return np.sort(np.argpartition(-gumbel, chosen, axis=1)[:, :chosen], axis=1).astype(np.int32)

    def drawn_values(attr: I32, shape: tuple[int, ...]) -> I64:
        """Values of `attr`, which is the first rows of what has this shape; the others are drawn and dropped."""
        which = random.integers(0, centres_each, size=shape)[: len(attr)]
        return centres[attr, which] + random.integers(-spread, spread + 1, size=shape)[: len(attr)]

    sub_attr = np.concatenate([drawn_attributes(CHUNK, used) for _ in range(chunks)])
    _skip_doubles(random, (SUBSCRIPTIONS - len(sub_attr)) * attributes)
    width = random.integers(1, widest + 1, size=(SUBSCRIPTIONS, used))[: len(sub_attr)]
    sub_lo = drawn_values(sub_attr, (SUBSCRIPTIONS, used))
    sub_hi = sub_lo + width - 1
    event_attr = drawn_attributes(EVENTS, carried)
    event_value = drawn_values(event_attr, event_attr.shape)
    for event in range(0, EVENTS, 2):  # these satisfy one of the first subscriptions
        source = random.integers(0, sources)
        extra = np.setdiff1d(event_attr[event], sub_attr[source])[: carried - used]
        attr = np.concatenate([sub_attr[source], extra])
        inside = random.integers(sub_lo[source], sub_hi[source] + 1)
        value = np.concatenate([inside, drawn_values(extra, extra.shape)])
        by_attr = np.argsort(attr)
        event_attr[event], event_value[event] = attr[by_attr], value[by_attr]
    whole = Workload(sub_attr, sub_lo, sub_hi, event_attr, event_value, attributes, domain)
    return whole.head(subscriptions)


def w2(seed: int = 20240602, subscriptions: int = SUBSCRIPTIONS) -> Workload:
    """5 dense attributes: every subscription constrains all of them, every event has all of them."""
    _chunks(subscriptions)
    attributes, domain, widest, spots, spread, hot_share = 5, 1000, 200, 4, 40.0, 0.7
    random = np.random.default_rng(seed)
    hot = random.uniform(150, 850, size=(spots, attributes))

    def points(count: int) -> Floats:
        in_hot = (random.random(count) < hot_share)[:, None]
        near = hot[random.integers(0, spots, size=count)] + random.normal(0, spread, size=(count, attributes))
        anywhere = random.uniform(0, domain, size=(count, attributes))
        return np.clip(np.where(in_hot, near, anywhere), 0, domain - 1)

    event_value = points(EVENTS).astype(np.int64)
    centre = points(SUBSCRIPTIONS)
    odds = 1.0 / np.arange(1, widest + 1)
    width = random.choice(np.arange(1, widest + 1), size=(SUBSCRIPTIONS, attributes), p=odds / odds.sum())
    lo = np.clip(np.rint(centre - width / 2).astype(np.int64), 0, domain - width)
    attr = np.arange(attributes, dtype=np.int32)
    sub_attr, event_attr = np.tile(attr, (SUBSCRIPTIONS, 1)), np.tile(attr, (EVENTS, 1))
    whole = Workload(sub_attr, lo, lo + width - 1, event_attr, event_value, attributes, domain)
    return whole.head(subscriptions)


WORKLOADS = {"w1": w1, "w1u": w1u, "w1z": w1z, "w2": w2}
"""By name. Each takes a seed, and how many subscriptions: a prefix of the whole."""


def _chunks(subscriptions: int) -> int:
    """How many chunks hold so many subscriptions."""
    if not 1 <= subscriptions <= SUBSCRIPTIONS:
        raise EarmarkError(f"a workload has 1 to {SUBSCRIPTIONS:,} subscriptions, not {subscriptions:,}.")
    return -(-subscriptions // CHUNK)


def _distinct(random: np.random.Generator, rows: int, choices: int, chosen: int) -> NDArray[Any]:
    """In each row, `chosen` different numbers below `choices`, in random order."""
    return np.argsort(random.random((rows, choices)), axis=1)[:, :chosen]


def _skip_doubles(random: np.random.Generator, count: int) -> None:
    """Leave the stream as if `count` doubles had been drawn: each takes one step, and no half step left for later."""
    stream = random.bit_generator
    half = {key: stream.state[key] for key in ("has_uint32", "uinteger")}
    stream.advance(count)  # type: ignore[attr-defined]  # the default stream, PCG64, has it
    stream.state = {**stream.state, **half}
