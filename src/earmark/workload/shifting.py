"""Events whose distribution shifts while the subscriptions stay: what an index that adapts to events is for.

Each function draws one workload per phase, all with the same subscriptions. From one phase to the next,

    carried      which attributes events carry changes: each phase draws them by a power law over another order of the
                 attributes. Subscriptions use all of them alike
    hot values   events have all attributes. Half of the ranges on an attribute are near one centre of it; in each phase
                 half of the attributes are hot: events have a value near the centre, nine times in ten. The next phase
                 makes the other half hot
    categories   the same with equalities: categories of subscriptions follow a power law, and so do those of events on
                 the hot attributes; on the others an event's are uniform
    profiles     BEGen (Table III of the BE*-Tree paper): each phase has the events of another half of the profiles

The first three make the attribute by which a subscription is best found change. The last does not: its subscriptions
are found by rare combinations whatever the events are.

**Invariant.** The same arguments give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from earmark.flat.arrays import F64, I32, I64
from earmark.workload.begen import Generator, Setting, generate
from earmark.workload.standard import Workload

DOMAIN = 1_000_000
CHUNK = 20_000
PHASES = 2
NEAR = 2_000
"""Values near a centre are at most this far from it."""
HOT_SHARE, NEAR_SHARE = 0.9, 0.5
"""The share of events near the centre of a hot attribute, and of ranges near the centre of any."""
CATEGORIES, LAW = 200, 1.0
"""Categories per attribute, and the exponent of their power law."""


class Shape(NamedTuple):
    """Attributes in all, of a subscription, and of an event."""

    attributes: int
    used: int
    carried: int


CARRIED, HOT, CATEGORICAL = Shape(100, 4, 12), Shape(24, 5, 24), Shape(12, 4, 12)


def carried(subscriptions: int, events: int, seed: int) -> list[Workload]:
    """Draw subscriptions, and in each phase events that carry other attributes."""
    random, shape = np.random.default_rng(seed), CARRIED
    attr = _attributes(random, subscriptions, shape.used, np.ones(shape.attributes))
    width = random.integers(1, 3 * DOMAIN // 10, size=attr.shape)
    low = random.integers(0, DOMAIN - width)
    odds, phases = np.arange(1, shape.attributes + 1) ** -1.5, []
    for _ in range(PHASES):
        own = _attributes(random, events, shape.carried, random.permutation(odds))
        value = random.integers(0, DOMAIN, size=own.shape)
        phases.append(Workload(attr, low, low + width, own, value, shape.attributes, DOMAIN))
    return phases


def hot_values(subscriptions: int, events: int, seed: int) -> list[Workload]:
    """Draw subscriptions, and in each phase events that crowd around the centres of other attributes."""
    random, shape = np.random.default_rng(seed), HOT
    attr = _attributes(random, subscriptions, shape.used, np.ones(shape.attributes))
    centre = random.integers(NEAR, DOMAIN - NEAR, size=shape.attributes)
    near = random.random(attr.shape) < NEAR_SHARE
    middle = np.where(near, centre[attr] + _offsets(random, attr.shape), random.integers(0, DOMAIN, size=attr.shape))
    width = random.integers(5, 4_000, size=attr.shape)
    own, phases = np.tile(np.arange(shape.attributes, dtype=np.int32), (events, 1)), []
    for hot in _halves(random, shape.attributes):
        crowded = hot & (random.random(own.shape) < HOT_SHARE)
        value = np.where(crowded, centre + _offsets(random, own.shape), random.integers(0, DOMAIN, size=own.shape))
        phases.append(Workload(attr, middle - width, middle + width, own, value, shape.attributes, DOMAIN))
    return phases


def categories(subscriptions: int, events: int, seed: int) -> list[Workload]:
    """Draw equalities, and in each phase events that have the popular categories of other attributes."""
    random, shape = np.random.default_rng(seed), CATEGORICAL
    attr = _attributes(random, subscriptions, shape.used, np.ones(shape.attributes))
    law = np.arange(1, CATEGORIES + 1) ** -LAW
    law /= law.sum()
    wanted = random.choice(CATEGORIES, size=attr.shape, p=law)
    own, phases = np.tile(np.arange(shape.attributes, dtype=np.int32), (events, 1)), []
    for hot in _halves(random, shape.attributes):
        popular = random.choice(CATEGORIES, size=own.shape, p=law)
        value = np.where(hot, popular, random.integers(0, CATEGORIES, size=own.shape))
        phases.append(Workload(attr, wanted, wanted, own, value, shape.attributes, CATEGORIES))
    return phases


def profiles(subscriptions: int, events: int, seed: int) -> list[Workload]:
    """Draw expressions of BEGen; each phase has the events that are aimed at some of the profiles."""
    setting = Setting(subscriptions=subscriptions, events=2 * PHASES * events, exponent=1.0, seed=seed)
    made, profile = generate(setting), Generator(setting).events()[2]
    own = [np.flatnonzero(profile % PHASES == phase)[:events] for phase in range(PHASES)]
    return [made._replace(event_attr=made.event_attr[one], event_value=made.event_value[one]) for one in own]


SHIFTS: dict[str, Callable[[int, int, int], list[Workload]]] = {
    "carried": carried,
    "hot values": hot_values,
    "categories": categories,
    "profiles": profiles,
}
"""By name: (subscriptions, events per phase, seed) -> the workload of each phase."""


def _attributes(random: np.random.Generator, rows: int, size: int, odds: F64) -> I32:
    """Draw `size` different attributes per row by their odds, ascending: those whose exponential times come first."""
    parts = [np.empty((0, size), np.int32)]
    for begin in range(0, rows, CHUNK):
        arrival = random.exponential(size=(min(CHUNK, rows - begin), len(odds))) / odds
        parts.append(np.sort(np.argpartition(arrival, size - 1, axis=1)[:, :size], axis=1).astype(np.int32))
    return np.concatenate(parts)


def _offsets(random: np.random.Generator, shape: tuple[int, ...]) -> I64:
    """Draw distances from a centre."""
    return random.integers(-NEAR, NEAR, size=shape)


def _halves(random: np.random.Generator, attributes: int) -> list[np.ndarray]:
    """Choose half of the attributes at random, and take the other half after it."""
    first = random.permutation(attributes) < attributes // 2
    return [first, ~first]
