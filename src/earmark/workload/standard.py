"""The standard workloads: seeded, the same on every machine, so that engines are judged on the same data.

    w1    attribute sets clustered: 80 % of the subscriptions use 8 of the 15 attributes of some event and contain
          its values; 20 % are uniform background. About 10 / 103 / 1,028 matches per event at 10k / 100k / 1M
    w1u   as w1, but attribute sets are uniform; half of the events are built around a subscription. About 0.5 matches
          per event at every size
    w1z   as w1u, but attributes are drawn by Zipf(1), so that a few are in nearly everything
    w2    5 dense attributes over 0..999, widths by Zipf over 1..200, 70 % of subscriptions and events in 4 hot
          spots. About 0.5 / 4.4 / 47.6 matches per event

A workload is a million subscriptions and a thousand events. A smaller one is a prefix: the same events, and the first
subscriptions. Asked for by `subscriptions`, it takes a second or two instead of the half minute of a whole w1. An event
matches a subscription when each of its closed intervals contains the event's value.

Bit for bit: which numbers are drawn, in which order and from which stream, is fixed; a test pins their checksums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import F64, I32, I64, frozen, pointers_of
from earmark.segment.arrays import SegmentArrays, boxes_table

SUBSCRIPTIONS = 1_000_000
EVENTS = 1_000
CHUNK = 50_000
UNUSED = -1
"""Attribute of a place that a shorter row does not use."""
NO_WEIGHTS: F64 = frozen(np.empty(0))

# The shape of w1, w1u and w1z.
DOMAIN, CENTRES, SPREAD, WIDEST, TARGETED = 250_000_000, 4, 100, 60, 0.8
USED, CARRIED = 8, 15
"""Attributes of a subscription and of an event."""
FIRST = 10_000
"""Every second event of w1u and w1z satisfies one of the first subscriptions, this many."""

# The shape of w2.
W2_DOMAIN, W2_WIDEST, HOT_SPOTS, HOT_SPREAD, HOT_SHARE = 1000, 200, 4, 40.0, 0.7

Random = np.random.Generator


class Workload(NamedTuple):
    """Subscriptions and events as rectangles of numbers; attributes ascend in each row.

    A row with fewer attributes than others starts with places of attribute UNUSED, whose range holds everything;
    `table` and `events` drop them.
    """

    sub_attr: I32
    sub_lo: I64
    sub_hi: I64
    event_attr: I32
    event_value: I64
    attributes: int
    domain: int
    sub_weight: F64 = NO_WEIGHTS
    """A weight for each predicate, or empty."""

    def head(self, subscriptions: int) -> Workload:
        """Return the workload with only the first `subscriptions` subscriptions."""
        return self.part(0, subscriptions)

    def part(self, start: int, end: int) -> Workload:
        """Return the workload with only the subscriptions from `start` to `end` - 1."""
        columns = ("sub_attr", "sub_lo", "sub_hi", "sub_weight")
        return self._replace(**{name: getattr(self, name)[start:end] for name in columns})

    def table(self) -> SegmentArrays:
        """Return the subscriptions as arrays: one clause per slot, one interval per constraint, sequence = slot."""
        start, attr, lo, hi, weight = _flat(self.sub_attr, self.sub_lo, self.sub_hi, self.sub_weight)
        null, each = np.zeros(len(attr), np.uint8), np.arange(len(attr) + 1, dtype=np.int32)
        table = boxes_table(start.astype(np.int32), attr, null, each, lo, hi)
        return table._replace(weight=frozen(weight.view()))

    def events(self) -> EventArrays:
        """Return the events as arrays, every value a point, without weights."""
        start, attr, keys = _flat(self.event_attr, self.event_value)
        return EventArrays._make(frozen(column.view()) for column in (start, attr, keys, keys, NO_WEIGHTS))


def _flat(attr: I32, *columns: NDArray[Any]) -> list[NDArray[Any]]:
    """Return where each row starts, then the columns without their unused places, as one row after another."""
    used = attr != UNUSED
    everything = bool(used.all())
    kept = (c.ravel() if everything or not c.size else c[used] for c in (attr, *columns))
    return [pointers_of(used.sum(axis=1)), *kept]


def dense(lo: I64, hi: I64, value: I64, domain: int, weight: F64 = NO_WEIGHTS) -> Workload:
    """Return a workload whose subscriptions and events all have every attribute."""
    attr = np.arange(lo.shape[1], dtype=np.int32)
    sub_attr, event_attr = (np.tile(attr, (len(rows), 1)) for rows in (lo, value))
    return Workload(sub_attr, lo, hi, event_attr, value, len(attr), domain, weight)


def check(holds: object, sentence: str) -> None:
    """Raise an error that says `sentence`, unless the condition holds."""
    if not holds:
        raise EarmarkError(sentence)


def w1(seed: int = 20240601, subscriptions: int = SUBSCRIPTIONS) -> Workload:
    """Draw w1: 400 attributes, 8 per subscription, 15 per event, in clusters around 500 profiles of two events each."""
    chunks, attributes, jitter = _chunks(subscriptions), 400, 3
    random = np.random.default_rng(seed)
    centres = np.sort(random.integers(1000, DOMAIN - 1000, size=(attributes, CENTRES), dtype=np.int64), axis=1)

    profiles = EVENTS // 2
    profile_attr = np.sort(_distinct(random, profiles, attributes, CARRIED), axis=1)
    value = near(random, centres, profile_attr)
    event_attr = profile_attr.repeat(2, axis=0)
    event_value = value.repeat(2, axis=0) + random.integers(-jitter, jitter + 1, size=(EVENTS, CARRIED))
    order = random.permutation(EVENTS)
    event_attr, event_value = event_attr[order], event_value[order]

    parts = [w1_chunk(random, centres, event_attr, event_value) for _ in range(chunks)]
    sub_attr, sub_lo, sub_hi = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Workload(sub_attr, sub_lo, sub_hi, event_attr, event_value, attributes, DOMAIN).head(subscriptions)


def w1_chunk(random: Random, centres: I64, event_attr: I32, event_value: I64) -> list[NDArray[Any]]:
    """Draw a chunk of w1: attributes, least and greatest values of subscriptions, most of them around an event."""
    targeted = (random.random(CHUNK) < TARGETED)[:, None]
    event = random.integers(0, EVENTS, size=CHUNK)[:, None]
    place = _distinct(random, CHUNK, CARRIED, USED)
    far_attr = _distinct(random, CHUNK, len(centres), USED)
    far_value = near(random, centres, far_attr)
    attr = np.where(targeted, event_attr[event, place], far_attr)
    inside = np.where(targeted, event_value[event, place], far_value)
    width = random.integers(1, WIDEST + 1, size=attr.shape)
    lo = inside - (random.random(attr.shape) * width).astype(np.int64)
    by_attr = np.argsort(attr, axis=1)
    return [np.take_along_axis(column, by_attr, 1) for column in (attr, lo, lo + width - 1)]


def w1u(seed: int = 20240603, subscriptions: int = SUBSCRIPTIONS) -> Workload:
    """Draw w1u: the sizes of w1, attributes uniform and independent of the events."""
    return _independent(seed, subscriptions, UNIFORM)


def w1z(seed: int = 20240604, subscriptions: int = SUBSCRIPTIONS) -> Workload:
    """Draw w1z: the sizes of w1, attribute i drawn with odds 1 / (i + 1), independent of the events."""
    return _independent(seed, subscriptions, ZIPF)


UNIFORM, ZIPF = np.ones(400), 1.0 / np.arange(1, 401)


def _independent(seed: int, subscriptions: int, odds: F64) -> Workload:
    chunks = _chunks(subscriptions)
    random = np.random.default_rng(seed)
    centres = random.integers(1000, DOMAIN - 1000, size=(len(odds), CENTRES), dtype=np.int64)
    sub_attr = np.concatenate([drawn_attributes(random, odds, CHUNK, USED) for _ in range(chunks)])
    _skip_doubles(random, (SUBSCRIPTIONS - len(sub_attr)) * len(odds))
    width = random.integers(1, WIDEST + 1, size=(SUBSCRIPTIONS, USED))[: len(sub_attr)]
    sub_lo = near(random, centres, sub_attr, SUBSCRIPTIONS)
    sub_hi = sub_lo + width - 1
    event_attr = drawn_attributes(random, odds, EVENTS, CARRIED)
    event_value = near(random, centres, event_attr)
    for event in range(0, EVENTS, 2):  # these satisfy one of the first subscriptions
        source = random.integers(0, FIRST)
        extra = np.setdiff1d(event_attr[event], sub_attr[source])[: CARRIED - USED]
        attr = np.concatenate([sub_attr[source], extra])
        inside = random.integers(sub_lo[source], sub_hi[source] + 1)
        value = np.concatenate([inside, near(random, centres, extra)])
        by_attr = np.argsort(attr)
        event_attr[event], event_value[event] = attr[by_attr], value[by_attr]
    return Workload(sub_attr, sub_lo, sub_hi, event_attr, event_value, len(odds), DOMAIN).head(subscriptions)


def w2(seed: int = 20240602, subscriptions: int = SUBSCRIPTIONS) -> Workload:
    """Draw w2: every subscription constrains all of 5 attributes, every event has all of them."""
    _chunks(subscriptions)
    random = np.random.default_rng(seed)
    hot = random.uniform(150, 850, size=(HOT_SPOTS, 5))
    value = w2_points(random, hot, EVENTS)
    lo, hi = w2_boxes(random, hot, SUBSCRIPTIONS)
    return dense(lo, hi, value, W2_DOMAIN).head(subscriptions)


def w2_points(random: Random, hot: F64, count: int) -> I64:
    """Draw points of w2, as `_w2_centres`, in whole numbers."""
    return _w2_centres(random, hot, count).astype(np.int64)


def _w2_centres(random: Random, hot: F64, count: int) -> F64:
    """Draw points: most of them near a hot spot, the others anywhere."""
    shape = (count, hot.shape[1])
    in_hot = (random.random(count) < HOT_SHARE)[:, None]
    close = hot[random.integers(0, len(hot), size=count)] + random.normal(0, HOT_SPREAD, size=shape)
    anywhere = random.uniform(0, W2_DOMAIN, size=shape)
    return np.clip(np.where(in_hot, close, anywhere), 0, W2_DOMAIN - 1)


def w2_boxes(random: Random, hot: F64, count: int) -> tuple[I64, I64]:
    """Draw the least and greatest values of subscriptions of w2."""
    centre = _w2_centres(random, hot, count)
    widths = np.arange(1, W2_WIDEST + 1)
    odds = 1.0 / widths
    width = random.choice(widths, size=centre.shape, p=odds / odds.sum())
    lo = np.clip(np.rint(centre - width / 2).astype(np.int64), 0, W2_DOMAIN - width)
    return lo, lo + width - 1


WORKLOADS = {"w1": w1, "w1u": w1u, "w1z": w1z, "w2": w2}
"""By name. Each takes a seed, and how many subscriptions: a prefix of the whole."""


def _chunks(subscriptions: int) -> int:
    """Return how many chunks hold this many subscriptions."""
    enough = 1 <= subscriptions <= SUBSCRIPTIONS
    check(enough, f"expected 1 to {SUBSCRIPTIONS:,} subscriptions, got {subscriptions:,}")
    return -(-subscriptions // CHUNK)


def _distinct(random: Random, rows: int, choices: int, chosen: int) -> I32:
    """Draw `chosen` different numbers below `choices` for each row, in random order."""
    return np.argsort(random.random((rows, choices)), axis=1)[:, :chosen].astype(np.int32)


def near(random: Random, centres: I64, attr: I32, rows: int | None = None) -> I64:
    """Draw a value near some centre of each attribute; with `rows`, draw for that many rows and drop the rest."""
    shape = attr.shape if rows is None else (rows, *attr.shape[1:])
    which = random.integers(0, centres.shape[1], size=shape)[: len(attr)]
    values: I64 = centres[attr, which] + random.integers(-SPREAD, SPREAD + 1, size=shape)[: len(attr)]
    return values


def drawn_attributes(random: Random, odds: F64, rows: int, chosen: int) -> I32:
    """Draw `chosen` different attributes for each row by their odds (the greatest of Gumbel variables), ascending."""
    gumbel = np.log(odds) - np.log(-np.log(random.random((rows, len(odds)))))
    return np.sort(np.argpartition(-gumbel, chosen, axis=1)[:, :chosen], axis=1).astype(np.int32)


def _skip_doubles(random: Random, count: int) -> None:
    """Leave the stream as if `count` doubles had been drawn: one step each, and no half step left for later."""
    stream = random.bit_generator
    half = {key: stream.state[key] for key in ("has_uint32", "uinteger")}
    stream.advance(count)  # type: ignore[attr-defined]  # the default stream, PCG64, has it
    stream.state = {**stream.state, **half}
