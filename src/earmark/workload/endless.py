"""Workloads of numbers beyond their last row: more of the same market, block by block.

A standard workload ends after a million subscriptions and a thousand events (`standard.py`). Here rows go on without
end. Block b is drawn from a stream of its own, seeded by (seed, table, b), so any block can be made alone, anywhere,
and is always the same. What all rows of a workload have in common is taken from its beginning: the centres of values,
the hot spots, the thousand events (which new subscriptions of w1 aim at, and which the events of w1 repeat) and the
first ten thousand subscriptions (around which half of the new events of w1u and w1z are built); for begen its profiles,
the share aimed at them and the counts of attributes that make weights.

**Invariant**: block(b) depends on the workload, the seed and b alone.
**Complexity**: a block of n rows costs O(n), after the beginning of the workload has been made once per process (about
a second).

    row of subscriptions   0 … 999,999            1,000,000 … 1,049,999   1,050,000 …
    comes from             standard.py, one       block 20                block 21
                           stream in order        stream (seed, 0, 20)    stream (seed, 0, 21)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from earmark.flat.arrays import F64
from earmark.workload import begen, mics, rectangles, skew, standard, zipf
from earmark.workload.standard import CHUNK, EVENTS, SUBSCRIPTIONS, WORKLOADS, Random, Workload

SUBSCRIPTION_STREAM, EVENT_STREAM = 0, 1

Make = Callable[[int, int, int], Workload]
"""(seed, block, until): a block of subscriptions or of events; the other ones of the workload mean nothing.

`until` is the row up to which the caller will go on asking, so that the beginning is made once and not block by block.
"""


class Beginning(NamedTuple):
    """What new rows share with the first ones."""

    data: Workload
    centres: Any
    """The centres of values, by attribute; of w2, the hot spots."""


def seed_of_block(seed: int, block: int) -> int:
    """Return the seed of a block; the first has the seed itself, and so is what the generator makes by itself."""
    if block == 0:
        return seed
    digest = hashlib.blake2b(f"{seed} {block}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


_kept: dict[tuple[str, int], Workload] = {}


def _first(name: str, seed: int, subscriptions: int) -> Workload:
    """Return at least this many subscriptions of a standard workload; keep the last one made. w2 is made whole."""
    kept = _kept.get((name, seed))
    if kept is None or len(kept.sub_attr) < subscriptions:
        _kept.clear()
        kept = WORKLOADS[name](seed, SUBSCRIPTIONS if name == "w2" else subscriptions)
        _kept[name, seed] = kept
    return kept


@lru_cache(maxsize=2)
def beginning(name: str, seed: int) -> Beginning:
    """Return the events, the first subscriptions and the centres, which are drawn before all else."""
    data = WORKLOADS[name](seed, CHUNK)
    random = np.random.default_rng(seed)
    if name == "w2":
        return Beginning(data, random.uniform(150, 850, size=(standard.HOT_SPOTS, data.attributes)))
    shape = (data.attributes, standard.CENTRES)
    return Beginning(data, random.integers(1000, data.domain - 1000, size=shape, dtype=np.int64))


def subscriptions(name: str, seed: int, block: int, until: int) -> Workload:
    """Return a block of subscriptions of a standard workload."""
    start = block * CHUNK
    if start < SUBSCRIPTIONS:
        return _first(name, seed, min(until, SUBSCRIPTIONS)).part(start, start + CHUNK)
    begun = beginning(name, seed)
    attr, lo, hi = _SUBSCRIPTIONS[name](begun, np.random.default_rng([seed, SUBSCRIPTION_STREAM, block]))
    return begun.data._replace(sub_attr=attr, sub_lo=lo, sub_hi=hi)


def events(name: str, seed: int, block: int, until: int) -> Workload:
    """Return a block of events of a standard workload."""
    begun = beginning(name, seed)
    if block == 0:
        return begun.data
    attr, value = _EVENTS[name](begun, np.random.default_rng([seed, EVENT_STREAM, block]))
    return begun.data._replace(event_attr=attr, event_value=value)


def _w1_events(begun: Beginning, random: Random) -> Any:
    """Return the thousand in another order, with repetitions: a new event would match half as many subscriptions."""
    which = random.integers(0, EVENTS, size=EVENTS)
    return begun.data.event_attr[which], begun.data.event_value[which]


def _independent_subscriptions(odds: F64, begun: Beginning, random: Random) -> Any:
    attr = standard.drawn_attributes(random, odds, CHUNK, standard.USED)
    lo = standard.near(random, begun.centres, attr)
    return attr, lo, lo + random.integers(0, standard.WIDEST, size=attr.shape)


def _independent_events(odds: F64, begun: Beginning, random: Random) -> Any:
    data = begun.data
    attr = standard.drawn_attributes(random, odds, EVENTS, standard.CARRIED)
    value = standard.near(random, begun.centres, attr)
    for event in range(0, EVENTS, 2):  # these satisfy one of the first subscriptions
        source = random.integers(0, standard.FIRST)
        extra = np.flatnonzero(~np.isin(attr[event], data.sub_attr[source]))[: standard.CARRIED - standard.USED]
        inside = random.integers(data.sub_lo[source], data.sub_hi[source] + 1)
        row_attr = np.concatenate([data.sub_attr[source], attr[event, extra]])
        row_value = np.concatenate([inside, value[event, extra]])
        order = np.argsort(row_attr)
        attr[event], value[event] = row_attr[order], row_value[order]
    return attr, value


Draw = Callable[[Beginning, Random], Any]
_SUBSCRIPTIONS: dict[str, Draw] = {
    "w1": lambda begun, random: standard.w1_chunk(random, begun.centres, *begun.data[3:5]),
    "w1u": partial(_independent_subscriptions, standard.UNIFORM),
    "w1z": partial(_independent_subscriptions, standard.ZIPF),
    "w2": lambda begun, random: (begun.data.sub_attr[:CHUNK], *standard.w2_boxes(random, begun.centres, CHUNK)),
}
_EVENTS: dict[str, Draw] = {
    "w1": _w1_events,
    "w1u": partial(_independent_events, standard.UNIFORM),
    "w1z": partial(_independent_events, standard.ZIPF),
    "w2": lambda begun, random: (begun.data.event_attr, standard.w2_points(random, begun.centres, EVENTS)),
}


# --- the others ----------------------------------------------------------------------------------------------


def _begen_generator(seed: int, *stream: int) -> begen.Generator:
    """Return the generator of a seed; with a stream, it has that one for everything but the seed's profiles."""
    generator = begen.Generator(begen.Setting(subscriptions=CHUNK, events=EVENTS, seed=seed))
    if stream:
        generator.random = np.random.default_rng([seed, *stream])
    return generator


@lru_cache(maxsize=2)
def _begen(seed: int) -> tuple[Workload, float, F64]:
    """Return the first block, the share of it that is aimed, and how rare each attribute is."""
    generator = _begen_generator(seed)
    data = generator.workload()
    return data, generator.share, begen.rarities(data.sub_attr, generator.setting.dimensions)


def _begen_subscriptions(seed: int, block: int, until: int) -> Workload:
    first, share, rarity = _begen(seed)
    if block == 0:
        return first
    generator = _begen_generator(seed, SUBSCRIPTION_STREAM, block)
    profile = generator.random.integers(0, generator.setting.profiles, size=CHUNK)
    aimed = generator.random.random(CHUNK) < share
    attr, lo, hi = generator.subscriptions(np.where(aimed, profile, standard.UNUSED))
    weight = begen.drawn_weights(generator.random, generator.setting.weights, attr, rarity)
    return first._replace(sub_attr=attr, sub_lo=lo, sub_hi=hi, sub_weight=weight)


def _begen_events(seed: int, block: int, until: int) -> Workload:
    first = _begen(seed)[0]
    if block == 0:
        return first
    attr, value, _ = _begen_generator(seed, EVENT_STREAM, block).events()
    return first._replace(event_attr=attr, event_value=value)


def _skew(rule: str, seed: int, block: int, until: int) -> Workload:
    """Draw a block; rows depend on the rule alone, so another seed gives more of the same."""
    return skew.skew(rule, CHUNK, events=EVENTS, seed=seed_of_block(seed, block))


def _mics(distribution: str, seed: int, block: int, until: int) -> Workload:
    return mics.mics(distribution, CHUNK, EVENTS, seed=seed_of_block(seed, block))


def _zipf(dimensions: int, seed: int, block: int, until: int) -> Workload:
    return zipf.zipf(seed, block, intervals=CHUNK, queries=EVENTS, dimensions=dimensions)


BOX_ATTRIBUTES, WIDEST_BOX = 5, 0.5


def _boxes(seed: int, block: int, until: int) -> Workload:
    lo, hi = rectangles.boxes(CHUNK, BOX_ATTRIBUTES, WIDEST_BOX, seed_of_block(seed, block))
    random = np.random.default_rng([seed, EVENT_STREAM, block])
    value = random.integers(0, rectangles.BOX_DOMAIN, (EVENTS, BOX_ATTRIBUTES))
    return standard.dense(lo, hi, value, rectangles.BOX_DOMAIN)


# --- by name -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EndlessWorkload:
    """A workload without end."""

    seed: int
    attributes: int
    subscriptions: Make
    events: Make
    weighted: bool = False


def _of_blocks(seed: int, attributes: int, make: Make, weighted: bool = False) -> EndlessWorkload:
    """Return a source whose generator makes subscriptions and events of a block together."""
    return EndlessWorkload(seed, attributes, make, make, weighted)


_STANDARD = ("w1", 20240601, 400), ("w1u", 20240603, 400), ("w1z", 20240604, 400), ("w2", 20240602, 5)
SOURCES: dict[str, EndlessWorkload] = {
    **{
        name: EndlessWorkload(seed, attributes, partial(subscriptions, name), partial(events, name))
        for name, seed, attributes in _STANDARD
    },
    "begen": EndlessWorkload(20240605, 400, _begen_subscriptions, _begen_events, weighted=True),
    **{f"skew-{rule}": _of_blocks(2003, 2, partial(_skew, rule)) for rule in skew.RULES},
    **{f"mics-{name}": _of_blocks(2008, mics.ATTRIBUTES, partial(_mics, name)) for name in mics.DISTRIBUTIONS},
    "zipf": _of_blocks(20080824, 1, partial(_zipf, 1), weighted=True),
    "zipf-4": _of_blocks(20080824, 4, partial(_zipf, 4), weighted=True),
    "rectangles": _of_blocks(7, BOX_ATTRIBUTES, _boxes),
}
"""Every workload that is rectangles of numbers."""
