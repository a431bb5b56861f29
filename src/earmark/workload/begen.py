"""Boolean expressions in the manner of BEGen, with every parameter of Table III of the BE*-Tree paper (section VII).

    size, dimensions, cardinality     how many subscriptions, attributes, and values an attribute can have
    clusters, cluster size            values lie within `cluster_size` of one of so many centres an attribute has;
                                      None: anywhere in the domain
    subscription and event size       predicates and values, on average: a quarter fewer to a quarter more
    match probability                 the share of subscriptions that an event matches, on average
    exponent                          attribute i is drawn with odds (i + 1) ** -exponent: 0 is uniform, 1 is Zipf's law

**How a matching probability comes about.** Eight predicates on eight of 400 attributes would never meet an event by
chance, so events and subscriptions are aimed at the same *profiles*: a profile is a set of attributes with a value
each. An event has all values of its profile, shifted by up to JITTER, and further attributes of its own; an aimed
subscription has predicates on some attributes of its profile, whose ranges hold whatever the shift. The others are
background, drawn alike but independently.

    profile        a3: 500          a7: 40          a9: 77                         3 profiles, 60 % aimed:
    event          a3: 502          a7: 40  a8: 1   a9: 78                         an event matches 60 % / 3 = 20 %
    subscription   a3 in [498, 506]                 a9 in [75, 81]

With P profiles and a share f aimed, an event matches f / P of all. P is as large as f <= 80 % (and the number of
events) permits. Chance matches are estimated on a sample, and f makes up for them; where chance alone exceeds what was
asked, that is an error. `matching_probability` measures what came out.

**Weights** follow section VII-C: inv(a) is the count of the rarest attribute divided by the count of a, and a weight
is drawn from N(0.8 inv, 0.05 inv), clipped to (0, inv]. The paper prints max(inv, N(...)), which is nearly always inv
itself; `weights="printed"` does that. Events carry no weights (each counts 1).

Where we choose because the paper does not say: the exponent (1 wherever "Zipf" is asked for), the spread of sizes, and
the number of values of a range ("a handful": 4 to 12).

**Invariant.** The same setting gives the same numbers. Rows are rectangles: attributes ascend, and a
row with fewer starts with places of attribute UNUSED, whose range holds everything (`table` and `events` drop them).

**Complexity.** Time O(subscriptions x dimensions), in chunks; 1M subscriptions over 400 dimensions take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.flat.types import F64, I32, I64, frozen
from earmark.segment.arrays import SegmentArrays

UNUSED = -1
"""Attribute of a place that a shorter row does not use."""
LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
CHUNK = 50_000
AIMED = 0.8
"""At most this share is aimed at profiles, unless the matching probability itself is above it."""
JITTER = 3
"""An event's values are up to this far above its profile's."""
SAMPLE_EVENTS, SAMPLE_SUBSCRIPTIONS = 200, 20_000
WEIGHTS = ("clipped", "printed", "none")

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Setting:
    """What is asked for; the defaults are the first columns of Table III, at 100,000 subscriptions."""

    subscriptions: int = 100_000
    events: int = 1_000
    dimensions: int = 400
    cardinality: int = 250_000_000
    clusters: int | None = 4
    cluster_size: int = 100
    subscription_size: int = 8
    event_size: int = 15
    match_probability: float = 0.001
    exponent: float = 0.0
    range_size: int = 12
    weights: str = "clipped"
    seed: int = 20240605

    def __post_init__(self) -> None:
        for name in ("subscriptions", "events", "dimensions", "subscription_size", "event_size", "range_size"):
            if getattr(self, name) < 1:
                raise EarmarkError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.clusters is not None and self.clusters < 1:
            raise EarmarkError(f"there must be at least 1 cluster, not {self.clusters}; None spreads values evenly.")
        if self.cluster_size < 0:
            raise EarmarkError(f"cluster_size must not be negative, but is {self.cluster_size}.")
        if not self.range_size < self.cardinality < 2**62:
            raise EarmarkError(f"cardinality must be above range_size ({self.range_size}), not {self.cardinality}.")
        if not 0.0 <= self.match_probability <= 1.0:
            raise EarmarkError(f"match_probability is a share from 0 to 1, not {self.match_probability}.")
        if not 0.0 <= self.exponent <= 10.0:
            raise EarmarkError(f"exponent must be from 0 (uniform) to 10, not {self.exponent}.")
        if self.subscription_size > self.event_size:
            told = f"subscriptions of {self.subscription_size} predicates cannot match events of {self.event_size}"
            raise EarmarkError(f"{told} values: subscription_size must be at most event_size.")
        largest = max(self.event_sizes[1], self.subscription_sizes[1])
        if largest > self.dimensions:
            raise EarmarkError(f"{self.dimensions} dimensions are too few: a row may need {largest}.")
        if self.weights not in WEIGHTS:
            raise EarmarkError(f"weights are one of {', '.join(WEIGHTS)}, not {self.weights!r}.")

    @property
    def jitter(self) -> int:
        """How far above its profile an event's value may lie: every range must be able to hold the shift."""
        return min(JITTER, self.range_size - 1)

    @property
    def subscription_sizes(self) -> tuple[int, int]:
        """Fewest and most predicates."""
        spread = self.subscription_size // 4
        return self.subscription_size - spread, self.subscription_size + spread

    @property
    def event_sizes(self) -> tuple[int, int]:
        """Fewest and most values; the fewest is the size of a profile, on which all of a subscription should fit."""
        fewest = max(self.event_size - self.event_size // 4, min(self.subscription_sizes[1], self.event_size))
        return fewest, 2 * self.event_size - fewest

    @property
    def profiles(self) -> int:
        """How many profiles there are."""
        if not self.match_probability:
            return 1
        return max(1, min(int(AIMED / self.match_probability), self.events))


class Workload(NamedTuple):
    """Subscriptions and events as rectangles, as in `standard.Workload`, and with weights."""

    sub_attr: I32
    sub_lo: I64
    sub_hi: I64
    event_attr: I32
    event_value: I64
    attributes: int
    domain: int
    sub_weight: F64

    def head(self, subscriptions: int) -> Workload:
        """The same with only the first so many subscriptions; they are in random order."""
        columns = ("sub_attr", "sub_lo", "sub_hi", "sub_weight")
        return self._replace(**{name: getattr(self, name)[:subscriptions] for name in columns})

    def table(self) -> SegmentArrays:
        """The subscriptions as table arrays: one clause a slot, one interval a constraint, sequence = slot."""
        used = self.sub_attr != UNUSED
        slots, constraints = len(used), int(used.sum())
        columns = (
            np.arange(slots + 1, dtype=np.int32),
            _offsets(used).astype(np.int32),
            self.sub_attr[used],
            np.zeros(constraints, np.uint8),
            np.arange(constraints + 1, dtype=np.int32),
            self.sub_lo[used],
            self.sub_hi[used],
            self.sub_weight[used] if len(self.sub_weight) else np.empty(0),
            np.empty(0),
            np.arange(slots, dtype=np.int64),
        )
        return SegmentArrays._make(frozen(column.view()) for column in columns)

    def events(self) -> EventArrays:
        """The events, every value a point, without weights."""
        used = self.event_attr != UNUSED
        keys = self.event_value[used]
        columns = (_offsets(used), self.event_attr[used], keys, keys, np.empty(0))
        return EventArrays._make(frozen(column.view()) for column in columns)


def generate(setting: Setting) -> Workload:
    """The workload of a setting."""
    return _Generator(setting).workload()


def matching_probability(workload: Workload, events: int | None = None) -> float:
    """The share of subscriptions that an event matches, averaged over the first so many events (or all)."""
    count = len(workload.event_attr) if events is None else min(events, len(workload.event_attr))
    found = sum(
        len(_matches(workload.sub_attr, workload.sub_lo, workload.sub_hi, _values(workload, e))) for e in range(count)
    )
    return found / (count * len(workload.sub_attr))


class _Generator:
    """The streams of one setting, in the order in which they are drawn."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.random = np.random.default_rng(setting.seed)
        numbers = np.arange(1, setting.dimensions + 1, dtype=np.float64)
        self.odds = numbers**-setting.exponent
        if setting.clusters is not None:
            margin = min(setting.cluster_size, (self.last + 1) // 2)
            shape = (setting.dimensions, setting.clusters)
            self.centres = self.random.integers(margin, self.last + 1 - margin, size=shape, endpoint=True)
        core = setting.event_sizes[0]
        self.profile_attr = self._attributes(setting.profiles, np.full(setting.profiles, core))
        self.profile_value = self._values_of(self.profile_attr)

    @property
    def last(self) -> int:
        """The greatest value a profile may have."""
        return self.setting.cardinality - 1 - self.setting.jitter

    def workload(self) -> Workload:
        """Everything, put together."""
        setting = self.setting
        event_attr, event_value, profile = self._events()
        aimed = round(self._aimed_share(event_attr, event_value, profile) * setting.subscriptions)
        target = np.full(setting.subscriptions, UNUSED, np.int64)
        target[:aimed] = np.resize(self.random.permutation(setting.profiles), aimed)
        self.random.shuffle(target)
        parts = [self._subscriptions(target[i : i + CHUNK]) for i in range(0, len(target), CHUNK)]
        attr, lo, hi = (np.concatenate(column) for column in zip(*parts, strict=True))
        weight = self._weights(attr)
        return Workload(attr, lo, hi, event_attr, event_value, setting.dimensions, setting.cardinality, weight)

    def _events(self) -> tuple[I32, I64, I64]:
        """Attributes, values, and the profile of each event; profiles take turns."""
        setting = self.setting
        core, widest = setting.event_sizes
        profile = np.resize(self.random.permutation(setting.profiles), setting.events)
        self.random.shuffle(profile)
        size = self.random.integers(core, widest + 1, size=setting.events)
        parts = []
        for begin in range(0, setting.events, CHUNK):
            mine, own = profile[begin : begin + CHUNK], size[begin : begin + CHUNK]
            shift = self.random.integers(0, setting.jitter + 1, size=(len(mine), core))
            extra = self._attributes(len(mine), own - core, taken=self.profile_attr[mine])
            more = self._values_of(extra)
            attr = np.concatenate([self.profile_attr[mine], extra], axis=1)
            value = np.concatenate([self.profile_value[mine] + shift, more], axis=1)
            parts.append(_sorted_rows(attr, np.where(attr == UNUSED, LEAST, value)))
        attr, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        return attr, value, profile

    def _aimed_share(self, event_attr: I32, event_value: I64, profile: I64) -> float:
        """The share to aim at profiles, so that with the matches of mere chance it comes to what was asked."""
        asked, profiles = self.setting.match_probability, self.setting.profiles
        if not asked:
            return 0.0
        sample = min(SAMPLE_SUBSCRIPTIONS, max(2_000, self.setting.subscriptions))
        shown = min(SAMPLE_EVENTS, len(event_attr))
        events = Workload(*self._empty(), event_attr, event_value, self.setting.dimensions, 0, np.empty(0))
        background = self._subscriptions(np.full(sample, UNUSED, np.int64))
        target = np.resize(np.arange(profiles), sample)
        aimed = self._subscriptions(target)
        by_chance, beside = 0, 0
        for e in range(shown):
            values = _values(events, e)
            by_chance += len(_matches(*background, values))
            beside += int((target[_matches(*aimed, values)] != profile[e]).sum())
        chance, other = by_chance / (sample * shown), beside / (sample * shown)
        if chance > 1.1 * asked:
            told = f"with these parameters {chance:.3%} match by chance alone, more than the {asked:.3%} asked for"
            raise EarmarkError(f"{told}; use more dimensions, larger subscriptions or a larger cardinality.")
        gained = 1.0 / profiles + other - chance
        return float(np.clip((asked - chance) / gained, 0.0, 1.0)) if gained > 0 else 0.0

    @staticmethod
    def _empty() -> tuple[I32, I64, I64]:
        return np.empty((0, 1), np.int32), np.empty((0, 1), np.int64), np.empty((0, 1), np.int64)

    def _subscriptions(self, target: I64) -> tuple[I32, I64, I64]:
        """Subscriptions aimed at these profiles, or at nothing where the target is UNUSED."""
        setting = self.setting
        fewest, widest = setting.subscription_sizes
        size = self.random.integers(fewest, widest + 1, size=len(target))
        far = target == UNUSED
        attr = np.empty((len(target), widest), np.int32)
        value = np.empty((len(target), widest), np.int64)
        attr[far] = self._attributes(int(far.sum()), size[far], widest)
        value[far] = self._values_of(attr[far])
        attr[~far], value[~far] = self._of_profiles(target[~far], size[~far], widest)
        unused = attr == UNUSED
        width = self.random.integers(setting.jitter + 1, setting.range_size + 1, size=attr.shape)
        below = self.random.integers(0, width - setting.jitter)
        lo = np.where(unused, LEAST, np.maximum(value - below, 0))
        hi = np.where(unused, GREATEST, np.minimum(value - below + width - 1, setting.cardinality - 1))
        attr, lo, hi = _sorted_rows(attr, lo, hi)
        return attr, lo, hi

    def _of_profiles(self, target: I64, size: I64, widest: int) -> tuple[I32, I64]:
        """For each target profile, so many of its attributes with their values."""
        core = self.profile_attr.shape[1]
        place = np.argsort(self.random.random((len(target), core)), axis=1)[:, :widest]
        attr = np.full((len(target), widest), UNUSED, np.int32)
        value = np.zeros((len(target), widest), np.int64)
        attr[:, : place.shape[1]] = self.profile_attr[target[:, None], place]
        value[:, : place.shape[1]] = self.profile_value[target[:, None], place]
        attr[np.arange(widest) >= size[:, None]] = UNUSED
        return attr, value

    def _attributes(self, rows: int, size: I64, widest: int | None = None, taken: I32 | None = None) -> I32:
        """In each row, so many different attributes by their odds, none of those taken; the rest UNUSED.

        Each attribute arrives after a time drawn from the exponential distribution with its odds as rate; the first
        to arrive are drawn one after the other without replacement.
        """
        widest = int(size.max(initial=0)) if widest is None else widest
        parts = [np.empty((0, widest), np.int32)]
        for begin in range(0, rows, CHUNK):
            own = size[begin : begin + CHUNK]
            arrival = self.random.random((len(own), len(self.odds)))
            if self.setting.exponent:  # where all odds are equal, the order of the arrivals is that of what was drawn
                np.log1p(np.negative(arrival, out=arrival), out=arrival)
                np.divide(arrival, -self.odds, out=arrival)
            if taken is not None:
                np.put_along_axis(arrival, taken[begin : begin + CHUNK].astype(np.int64), np.inf, axis=1)
            first = np.argpartition(arrival, min(widest, arrival.shape[1] - 1), axis=1)[:, :widest]
            by_arrival = np.argsort(np.take_along_axis(arrival, first, 1), axis=1)
            attr = np.take_along_axis(first, by_arrival, 1).astype(np.int32)
            attr[np.arange(widest) >= own[:, None]] = UNUSED
            parts.append(attr)
        return np.concatenate(parts)

    def _values_of(self, attr: I32) -> I64:
        """A value of each attribute: near one of its centres, or anywhere."""
        setting = self.setting
        if setting.clusters is None:
            return self.random.integers(0, self.last + 1, size=attr.shape)
        which = self.random.integers(0, setting.clusters, size=attr.shape)
        near = self.random.integers(-setting.cluster_size, setting.cluster_size + 1, size=attr.shape)
        value: I64 = np.clip(self.centres[attr, which] + near, 0, self.last)
        return value

    def _weights(self, attr: I32) -> F64:
        """A weight a predicate, by how rare its attribute is."""
        if self.setting.weights == "none":
            return np.empty(0)
        used = attr != UNUSED
        count = np.bincount(attr[used], minlength=self.setting.dimensions)
        inverse = count[count > 0].min(initial=1 << 62) / np.maximum(count, 1)
        inv = np.where(used, inverse[attr], 1.0)
        drawn = inv * self.random.normal(0.8, 0.05, size=attr.shape)
        if self.setting.weights == "printed":
            return np.where(used, np.maximum(inv, drawn), 0.0)
        return np.where(used, np.clip(drawn, inv * 1e-9, inv), 0.0)


def _sorted_rows(attr: I32, *columns: I64) -> tuple[Any, ...]:
    """The rows with attributes ascending, UNUSED first."""
    order = np.argsort(attr, axis=1)
    return tuple(np.take_along_axis(column, order, 1) for column in (attr, *columns))


def _offsets(used: Bools) -> I64:
    start = np.zeros(len(used) + 1, np.int64)
    np.cumsum(used.sum(axis=1), out=start[1:])
    return start


def _values(workload: Workload, e: int) -> I64:
    """An event's value by attribute, LEAST where it has none."""
    value = np.full(workload.attributes, LEAST)
    used = workload.event_attr[e] != UNUSED
    value[workload.event_attr[e][used]] = workload.event_value[e][used]
    return value


def _matches(attr: I32, lo: I64, hi: I64, value: I64) -> I64:
    """Subscriptions that match, fewer left with each column; the last columns are used by all."""
    left = np.arange(len(attr))
    for j in reversed(range(attr.shape[1])):
        given = value[attr[left, j]]
        left = np.compress((lo[left, j] <= given) & (given <= hi[left, j]), left)
    return left
