"""Boolean expressions in the manner of BEGen, with every parameter of Table III of the BE*-Tree paper (section VII).

    size, dimensions, cardinality     how many subscriptions, attributes, and values an attribute can have
    clusters, cluster size            values are within `cluster_size` of one of the centres of their attribute,
                                      `clusters` of them; None: anywhere in the domain
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

**Invariant.** The same setting gives the same numbers.

**Complexity.** Time O(subscriptions x dimensions), in chunks; 1M subscriptions over 400 dimensions take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from earmark.flat.arrays import F64, I32, I64
from earmark.workload.standard import NO_WEIGHTS, UNUSED, Workload, check

LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
CHUNK = 50_000
AIMED = 0.8
"""At most this share is aimed at profiles, unless the matching probability itself is above it."""
JITTER = 3
"""An event's values are up to this far above its profile's."""
SAMPLE_EVENTS, SAMPLE_SUBSCRIPTIONS = 200, 20_000
WEIGHTS = ("clipped", "printed", "none")


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of a workload; the defaults are the first columns of Table III, at 100,000 subscriptions."""

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
            check(getattr(self, name) >= 1, f"{name} must be at least 1, got {getattr(self, name)}")
        check(self.clusters is None or self.clusters >= 1, f"clusters must be at least 1 or None, got {self.clusters}")
        check(self.cluster_size >= 0, f"cluster_size must not be negative, got {self.cluster_size}")
        held = self.range_size < self.cardinality < 2**62
        check(held, f"cardinality must be above range_size ({self.range_size}), got {self.cardinality}")
        share = self.match_probability
        check(0.0 <= share <= 1.0, f"match_probability must be a share from 0 to 1, got {share}")
        check(0.0 <= self.exponent <= 10.0, f"exponent must be from 0 (uniform) to 10, got {self.exponent}")
        sizes = f"{self.subscription_size} predicates and {self.event_size} values"
        fits = self.subscription_size <= self.event_size
        check(fits, f"subscription_size must be at most event_size, got {sizes}")
        largest = max(self.event_sizes[1], self.subscription_sizes[1])
        check(largest <= self.dimensions, f"expected at least {largest} dimensions, got {self.dimensions}")
        check(self.weights in WEIGHTS, f"weights must be one of {', '.join(WEIGHTS)}, got {self.weights!r}")

    @property
    def jitter(self) -> int:
        """How far above its profile an event's value may be: every range must be able to hold the shift."""
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


def generate(setting: Setting) -> Workload:
    """Draw the workload of a setting."""
    return Generator(setting).workload()


def matching_probability(workload: Workload, events: int | None = None) -> float:
    """Return the share of subscriptions that an event matches, averaged over the first `events` events, or all."""
    count = len(workload.event_attr) if events is None else min(events, len(workload.event_attr))
    boxes = workload[:3]
    matches = sum(len(_matches(*boxes, _values(workload, e))) for e in range(count))
    return matches / (count * len(workload.sub_attr))


class Generator:
    """Draws the numbers of one setting, in a fixed order."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.random = np.random.default_rng(setting.seed)
        self.odds = np.arange(1, setting.dimensions + 1, dtype=np.float64) ** -setting.exponent
        if setting.clusters is not None:
            margin = min(setting.cluster_size, (self.last + 1) // 2)
            shape = (setting.dimensions, setting.clusters)
            self.centres = self.random.integers(margin, self.last + 1 - margin, size=shape, endpoint=True)
        self.profile_attr = self._attributes(np.full(setting.profiles, setting.event_sizes[0]))
        self.profile_value = self._values_of(self.profile_attr)

    @property
    def last(self) -> int:
        """The greatest value a profile may have."""
        return self.setting.cardinality - 1 - self.setting.jitter

    def workload(self) -> Workload:
        """Draw the whole workload."""
        setting = self.setting
        event_attr, event_value, profile = self.events()
        self.share = self._aimed_share(event_attr, event_value, profile)
        aimed = round(self.share * setting.subscriptions)
        target = np.full(setting.subscriptions, UNUSED, np.int64)
        target[:aimed] = np.resize(self.random.permutation(setting.profiles), aimed)
        self.random.shuffle(target)
        parts = [self.subscriptions(target[i : i + CHUNK]) for i in range(0, len(target), CHUNK)]
        attr, lo, hi = (np.concatenate(column) for column in zip(*parts, strict=True))
        weight = drawn_weights(self.random, setting.weights, attr, rarities(attr, setting.dimensions))
        return Workload(attr, lo, hi, event_attr, event_value, setting.dimensions, setting.cardinality, weight)

    def events(self) -> tuple[I32, I64, I64]:
        """Draw the attributes, the values, and the profile of each event; profiles take turns."""
        setting = self.setting
        core, widest = setting.event_sizes
        profile = np.resize(self.random.permutation(setting.profiles), setting.events)
        self.random.shuffle(profile)
        size = self.random.integers(core, widest + 1, size=setting.events)
        parts = []
        for begin in range(0, setting.events, CHUNK):
            chunk = profile[begin : begin + CHUNK]
            shift = self.random.integers(0, setting.jitter + 1, size=(len(chunk), core))
            extra = self._attributes(size[begin : begin + CHUNK] - core, taken=self.profile_attr[chunk])
            attr = np.concatenate([self.profile_attr[chunk], extra], axis=1)
            value = np.concatenate([self.profile_value[chunk] + shift, self._values_of(extra)], axis=1)
            parts.append(sorted_rows(attr, np.where(attr == UNUSED, LEAST, value)))
        attr, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        return attr, value, profile

    def _aimed_share(self, event_attr: I32, event_value: I64, profile: I64) -> float:
        """Return the share to aim at profiles, so that with chance matches it comes to what was asked."""
        asked, profiles = self.setting.match_probability, self.setting.profiles
        if not asked:
            return 0.0
        sample = min(SAMPLE_SUBSCRIPTIONS, max(2_000, self.setting.subscriptions))
        shown = min(SAMPLE_EVENTS, len(event_attr))
        background = self.subscriptions(np.full(sample, UNUSED, np.int64))
        target = np.resize(np.arange(profiles), sample)
        aimed = self.subscriptions(target)
        events = Workload(*aimed, event_attr, event_value, self.setting.dimensions, 0)
        by_chance, beside = 0, 0
        for e in range(shown):
            values = _values(events, e)
            by_chance += len(_matches(*background, values))
            beside += int((target[_matches(*aimed, values)] != profile[e]).sum())
        chance, other = by_chance / (sample * shown), beside / (sample * shown)
        excess = f"{chance:.3%} match by chance alone, more than the {asked:.3%} asked for"
        check(chance <= 1.1 * asked, f"{excess}; use more dimensions, larger subscriptions or a larger cardinality")
        gained = 1.0 / profiles + other - chance
        return float(np.clip((asked - chance) / gained, 0.0, 1.0)) if gained > 0 else 0.0

    def subscriptions(self, target: I64) -> tuple[I32, I64, I64]:
        """Draw subscriptions aimed at these profiles, or at nothing where the target is UNUSED."""
        setting = self.setting
        fewest, widest = setting.subscription_sizes
        size = self.random.integers(fewest, widest + 1, size=len(target))
        far = target == UNUSED
        attr = np.empty((len(target), widest), np.int32)
        value = np.empty((len(target), widest), np.int64)
        attr[far] = self._attributes(size[far], widest)
        value[far] = self._values_of(attr[far])
        attr[~far], value[~far] = self._of_profiles(target[~far], size[~far], widest)
        unused = attr == UNUSED
        width = self.random.integers(setting.jitter + 1, setting.range_size + 1, size=attr.shape)
        below = self.random.integers(0, width - setting.jitter)
        lo = np.where(unused, LEAST, np.maximum(value - below, 0))
        hi = np.where(unused, GREATEST, np.minimum(value - below + width - 1, setting.cardinality - 1))
        attr, lo, hi = sorted_rows(attr, lo, hi)
        return attr, lo, hi

    def _of_profiles(self, target: I64, size: I64, widest: int) -> tuple[I32, I64]:
        """Draw `size` attributes of each target profile, with their values."""
        core = self.profile_attr.shape[1]
        place = np.argsort(self.random.random((len(target), core)), axis=1)[:, :widest]
        attr = np.full((len(target), widest), UNUSED, np.int32)
        value = np.zeros((len(target), widest), np.int64)
        attr[:, : place.shape[1]] = self.profile_attr[target[:, None], place]
        value[:, : place.shape[1]] = self.profile_value[target[:, None], place]
        attr[np.arange(widest) >= size[:, None]] = UNUSED
        return attr, value

    def _attributes(self, size: I64, widest: int | None = None, taken: I32 | None = None) -> I32:
        """Draw `size` different attributes for each row by their odds, none of those taken; the rest is UNUSED.

        Each attribute arrives after a time drawn from the exponential distribution with its odds as rate; the first
        to arrive are drawn one after the other without replacement.
        """
        widest = int(size.max(initial=0)) if widest is None else widest
        parts = [np.empty((0, widest), np.int32)]
        for begin in range(0, len(size), CHUNK):
            sizes = size[begin : begin + CHUNK]
            arrival = self.random.random((len(sizes), len(self.odds)))
            if self.setting.exponent:  # where all odds are equal, the order of the arrivals is that of what was drawn
                np.log1p(np.negative(arrival, out=arrival), out=arrival)
                np.divide(arrival, -self.odds, out=arrival)
            if taken is not None:
                np.put_along_axis(arrival, taken[begin : begin + CHUNK].astype(np.int64), np.inf, axis=1)
            first = np.argpartition(arrival, min(widest, arrival.shape[1] - 1), axis=1)[:, :widest]
            by_arrival = np.argsort(np.take_along_axis(arrival, first, 1), axis=1)
            attr = np.take_along_axis(first, by_arrival, 1).astype(np.int32)
            attr[np.arange(widest) >= sizes[:, None]] = UNUSED
            parts.append(attr)
        return np.concatenate(parts)

    def _values_of(self, attr: I32) -> I64:
        """Draw a value of each attribute: near one of its centres, or anywhere."""
        setting = self.setting
        if setting.clusters is None:
            return self.random.integers(0, self.last + 1, size=attr.shape)
        which = self.random.integers(0, setting.clusters, size=attr.shape)
        near = self.random.integers(-setting.cluster_size, setting.cluster_size + 1, size=attr.shape)
        value: I64 = np.clip(self.centres[attr, which] + near, 0, self.last)
        return value


def rarities(attr: I32, dimensions: int) -> F64:
    """Return inv(a) of each attribute: the count of the rarest one divided by its own count."""
    count = np.bincount(attr[attr != UNUSED], minlength=dimensions)
    inverse: F64 = count[count > 0].min(initial=1 << 62) / np.maximum(count, 1)
    return inverse


def drawn_weights(random: np.random.Generator, form: str, attr: I32, rarity: F64) -> F64:
    """Draw a weight for each predicate, by how rare its attribute is; `form` is one of WEIGHTS."""
    if form == "none":
        return NO_WEIGHTS
    used = attr != UNUSED
    inv = np.where(used, rarity[attr], 1.0)
    drawn = inv * random.normal(0.8, 0.05, size=attr.shape)
    if form == "printed":
        return np.where(used, np.maximum(inv, drawn), 0.0)
    return np.where(used, np.clip(drawn, inv * 1e-9, inv), 0.0)


def sorted_rows(attr: I32, *columns: I64) -> tuple[Any, ...]:
    """Return the rows with attributes ascending, UNUSED first."""
    order = np.argsort(attr, axis=1)
    return tuple(np.take_along_axis(column, order, 1) for column in (attr, *columns))


def _values(workload: Workload, e: int) -> I64:
    """Return an event's value by attribute, LEAST where it has none."""
    value = np.full(workload.attributes, LEAST)
    used = workload.event_attr[e] != UNUSED
    value[workload.event_attr[e][used]] = workload.event_value[e][used]
    return value


def _matches(attr: I32, lo: I64, hi: I64, value: I64) -> I64:
    """Return the subscriptions that match, fewer with each column; the last columns are used by all."""
    left = np.arange(len(attr))
    for j in reversed(range(attr.shape[1])):
        here = value[attr[left, j]]
        left = np.compress((lo[left, j] <= here) & (here <= hi[left, j]), left)
    return left
