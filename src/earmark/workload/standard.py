"""The standard workloads: seeded, the same on every machine, so that engines are judged on the same data.

    w1    attribute sets clustered: 80 % of the subscriptions use 8 of the 15 attributes of some event and contain
          its values; 20 % are uniform background. About 10 / 103 / 1,028 matches an event at 10k / 100k / 1M
    w2    5 dense attributes over 0..999, widths by Zipf over 1..200, 70 % of subscriptions and events in 4 hot
          spots. About 0.5 / 4.4 / 47.6 matches an event

A workload always draws a million subscriptions and a thousand events; smaller sizes are prefixes (`head`). An
event matches a subscription when each of its closed intervals contains the event's value.

Bit for bit: which numbers are drawn, in which order and from which stream, is fixed; a test pins their checksums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.model.arrays import I32, I64, EventArrays, TableArrays, frozen

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

    def table(self) -> TableArrays:
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
        return TableArrays._make(frozen(column.view()) for column in columns)

    def events(self) -> EventArrays:
        """The events, every value a point."""
        count, width = self.event_attr.shape
        start = np.arange(0, count * width + 1, width, dtype=np.int64)
        keys = self.event_value.ravel()
        columns = (start, self.event_attr.ravel(), keys, keys, np.empty(0))
        return EventArrays._make(frozen(column.view()) for column in columns)


def w1(seed: int = 20240601) -> Workload:
    """400 attributes, 8 a subscription, 15 an event, in clusters around 500 profiles of two events each."""
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
    for _ in range(SUBSCRIPTIONS // CHUNK):
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
    return Workload(sub_attr, sub_lo, sub_hi, event_attr, event_value, attributes, domain)


def w2(seed: int = 20240602) -> Workload:
    """5 dense attributes: every subscription constrains all of them, every event has all of them."""
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
    return Workload(sub_attr, lo, lo + width - 1, event_attr, event_value, attributes, domain)


WORKLOADS = {"w1": w1, "w2": w2}
"""By name."""


def _distinct(random: np.random.Generator, rows: int, choices: int, chosen: int) -> NDArray[Any]:
    """In each row, `chosen` different numbers below `choices`, in random order."""
    return np.argsort(random.random((rows, choices)), axis=1)[:, :chosen]
