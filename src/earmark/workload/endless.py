"""Workloads of numbers beyond their last row: more of the same market, block by block.

A standard workload ends after a million subscriptions and a thousand events (`standard.py`). Here rows go on without
end. Block b is drawn from a stream of its own, seeded by (seed, table, b), so any block can be made alone, anywhere,
and is always the same. What all rows of a workload have in common is taken from its beginning: the centres around
which values lie, the hot spots, the thousand events (which new subscriptions of w1 aim at, and which the events of w1
repeat) and the first ten thousand subscriptions (around which half of the new events of w1u and w1z are built); for
begen its profiles, the share aimed at them and the counts of attributes that make weights.

**Invariant**: block(b) depends on the workload, the seed and b alone.
**Complexity**: a block of n rows costs O(n), after the beginning of the workload has been made once a process (about
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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.flat.types import I32, I64
from earmark.workload import begen, mics, rectangles, skew, zipf
from earmark.workload.standard import CHUNK, EVENTS, SUBSCRIPTIONS, WORKLOADS, Workload

SUBSCRIPTION_STREAM, EVENT_STREAM = 0, 1
SPREAD, WIDEST, TARGETED = 100, 60, 0.8
FIRST = 10_000
Random = np.random.Generator
Values = tuple[I32, I64]
"""Attributes and values of events, a row an event."""


class Part(NamedTuple):
    """Attributes, least and greatest values, and perhaps weights of subscriptions; attribute -1 is no attribute."""

    attr: I32
    lo: I64
    hi: I64
    weight: NDArray[np.float64] | None = None


class Beginning(NamedTuple):
    """What new rows share with the first ones."""

    data: Workload
    centres: NDArray[np.float64] | I64


def seed_of_block(seed: int, block: int) -> int:
    """The seed of a block; the first has the seed itself, and so is what the generator makes by itself."""
    if block == 0:
        return seed
    digest = hashlib.blake2b(f"{seed} {block}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


_kept: dict[tuple[str, int], Workload] = {}


def standard(name: str, seed: int, subscriptions: int) -> Workload:
    """At least so many subscriptions of a standard workload. The last one made is kept; w2 is always made whole."""
    found = _kept.get((name, seed))
    if found is None or len(found.sub_attr) < subscriptions:
        _kept.clear()
        found = WORKLOADS[name](seed, SUBSCRIPTIONS if name == "w2" else min(subscriptions, SUBSCRIPTIONS))
        _kept[name, seed] = found
    return found


@lru_cache(maxsize=2)
def beginning(name: str, seed: int) -> Beginning:
    """The events, the first subscriptions and the centres (of w2: the hot spots), which are drawn before all else."""
    data = WORKLOADS[name](seed, CHUNK)
    first = np.random.default_rng(seed)
    if name == "w2":
        return Beginning(data, first.uniform(150, 850, size=(4, data.attributes)))
    return Beginning(data, first.integers(1000, data.domain - 1000, size=(data.attributes, 4), dtype=np.int64))


def subscriptions(name: str, seed: int, block: int, count: int, until: int = 0) -> Part:
    """The first `count` subscriptions of a block of `CHUNK`: attributes, least and greatest values.

    `until`: up to which row the caller will go on asking, so that the beginning is made once and not block by block.
    """
    start = block * CHUNK
    if start < SUBSCRIPTIONS:
        data = standard(name, seed, min(max(start + count, until), SUBSCRIPTIONS))
        rows = slice(start, start + count)
        return Part(data.sub_attr[rows], data.sub_lo[rows], data.sub_hi[rows])
    random = np.random.default_rng([seed, SUBSCRIPTION_STREAM, block])
    made = _SUBSCRIPTIONS[name](beginning(name, seed), random)
    return Part(made.attr[:count], made.lo[:count], made.hi[:count])


def events(name: str, seed: int, block: int, count: int) -> Values:
    """The first `count` events of a block of `EVENTS`: attributes and values."""
    begun = beginning(name, seed)
    if block == 0:
        return begun.data.event_attr[:count], begun.data.event_value[:count]
    attr, value = _EVENTS[name](begun, np.random.default_rng([seed, EVENT_STREAM, block]))
    return attr[:count], value[:count]


def _distinct(random: Random, rows: int, choices: int, chosen: int) -> I32:
    """In each row, `chosen` different numbers below `choices`."""
    return np.argsort(random.random((rows, choices)), axis=1)[:, :chosen].astype(np.int32)


def _near(begun: Beginning, random: Random, attr: I32) -> I64:
    """A value near some centre of each attribute."""
    centre: I64 = begun.centres[attr, random.integers(0, 4, size=attr.shape)].astype(np.int64)
    return centre + random.integers(-SPREAD, SPREAD + 1, size=attr.shape)


def _w1_subscriptions(begun: Beginning, random: Random) -> Part:
    data = begun.data
    used, carried = data.sub_attr.shape[1], data.event_attr.shape[1]
    targeted = (random.random(CHUNK) < TARGETED)[:, None]
    event = random.integers(0, EVENTS, size=CHUNK)[:, None]
    place = _distinct(random, CHUNK, carried, used)
    far = _distinct(random, CHUNK, data.attributes, used)
    attr = np.where(targeted, data.event_attr[event, place], far)
    inside = np.where(targeted, data.event_value[event, place], _near(begun, random, far))
    width = random.integers(1, WIDEST + 1, size=attr.shape)
    lo = inside - (random.random(attr.shape) * width).astype(np.int64)
    by_attr = np.argsort(attr, axis=1)
    attr, lo, hi = (np.take_along_axis(column, by_attr, 1) for column in (attr, lo, lo + width - 1))
    return Part(attr, lo, hi)


def _w1_events(begun: Beginning, random: Random) -> Values:
    """The thousand in another order, with repetitions: a new event would match half as many subscriptions."""
    which = random.integers(0, EVENTS, size=EVENTS)
    return begun.data.event_attr[which], begun.data.event_value[which]


def _drawn_attributes(random: Random, odds: NDArray[np.float64], rows: int, chosen: int) -> I32:
    """In each row, `chosen` different attributes by their odds (the greatest of Gumbel variables), ascending."""
    gumbel = np.log(odds) - np.log(-np.log(random.random((rows, len(odds)))))
    return np.sort(np.argpartition(-gumbel, chosen, axis=1)[:, :chosen], axis=1).astype(np.int32)


def _independent_subscriptions(odds: NDArray[np.float64]) -> Callable[[Beginning, Random], Part]:
    def make(begun: Beginning, random: Random) -> Part:
        attr = _drawn_attributes(random, odds, CHUNK, begun.data.sub_attr.shape[1])
        lo = _near(begun, random, attr)
        return Part(attr, lo, lo + random.integers(0, WIDEST, size=attr.shape))

    return make


def _independent_events(odds: NDArray[np.float64]) -> Callable[[Beginning, Random], Values]:
    def make(begun: Beginning, random: Random) -> Values:
        data = begun.data
        used, carried = data.sub_attr.shape[1], data.event_attr.shape[1]
        attr = _drawn_attributes(random, odds, EVENTS, carried)
        value = _near(begun, random, attr)
        for event in range(0, EVENTS, 2):  # these satisfy one of the first subscriptions
            source = random.integers(0, FIRST)
            extra = np.flatnonzero(~np.isin(attr[event], data.sub_attr[source]))[: carried - used]
            inside = random.integers(data.sub_lo[source], data.sub_hi[source] + 1)
            row_attr = np.concatenate([data.sub_attr[source], attr[event, extra]])
            row_value = np.concatenate([inside, value[event, extra]])
            order = np.argsort(row_attr)
            attr[event], value[event] = row_attr[order], row_value[order]
        return attr, value

    return make


def _w2_points(begun: Beginning, random: Random, count: int) -> NDArray[np.float64]:
    spots, attributes = begun.centres.shape
    in_hot = (random.random(count) < 0.7)[:, None]
    near = begun.centres[random.integers(0, spots, size=count)] + random.normal(0, 40.0, size=(count, attributes))
    anywhere = random.uniform(0, begun.data.domain, size=(count, attributes))
    return np.clip(np.where(in_hot, near, anywhere), 0, begun.data.domain - 1)


def _w2_subscriptions(begun: Beginning, random: Random) -> Part:
    widths = np.arange(1, 201)
    centre = _w2_points(begun, random, CHUNK)
    width = random.choice(widths, size=centre.shape, p=(1 / widths) / (1 / widths).sum())
    lo = np.clip(np.rint(centre - width / 2).astype(np.int64), 0, begun.data.domain - width)
    return Part(begun.data.sub_attr[:CHUNK], lo, lo + width - 1)


def _w2_events(begun: Beginning, random: Random) -> Values:
    return begun.data.event_attr, _w2_points(begun, random, EVENTS).astype(np.int64)


_UNIFORM, _ZIPF = np.ones(400), 1.0 / np.arange(1, 401)
_SUBSCRIPTIONS: dict[str, Callable[[Beginning, Random], Part]] = {
    "w1": _w1_subscriptions,
    "w1u": _independent_subscriptions(_UNIFORM),
    "w1z": _independent_subscriptions(_ZIPF),
    "w2": _w2_subscriptions,
}
_EVENTS: dict[str, Callable[[Beginning, Random], Values]] = {
    "w1": _w1_events,
    "w1u": _independent_events(_UNIFORM),
    "w1z": _independent_events(_ZIPF),
    "w2": _w2_events,
}


# --- begen, skew and mics ------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _begen(seed: int) -> tuple[begen.Workload, float, NDArray[np.float64]]:
    """A block of BEGen's as it comes, the share of it that is aimed, and how rare each attribute is."""
    first = begen.generate(begen.Setting(subscriptions=CHUNK, events=EVENTS, seed=seed))
    count = np.bincount(first.sub_attr[first.sub_attr >= 0], minlength=first.attributes)
    made = begen._Generator(begen.Setting(subscriptions=CHUNK, events=EVENTS, seed=seed))
    share = made._aimed_share(*made._events())
    return first, share, count[count > 0].min() / np.maximum(count, 1)


def _begen_again(seed: int, stream: int, block: int) -> begen._Generator:
    """A generator with the profiles of the seed and a stream of its own for everything else."""
    made = begen._Generator(begen.Setting(subscriptions=CHUNK, events=EVENTS, seed=seed))
    made.random = np.random.default_rng([seed, stream, block])
    return made


def _begen_subscriptions(seed: int, block: int, count: int, until: int) -> Part:
    first, share, inverse = _begen(seed)
    if block == 0:
        return Part(first.sub_attr[:count], first.sub_lo[:count], first.sub_hi[:count], first.sub_weight[:count])
    made = _begen_again(seed, SUBSCRIPTION_STREAM, block)
    profile = made.random.integers(0, made.setting.profiles, size=CHUNK)
    target = np.where(made.random.random(CHUNK) < share, profile, begen.UNUSED)
    attr, lo, hi = made._subscriptions(target)
    inv = np.where(attr >= 0, inverse[attr], 1.0)
    weight = np.where(attr >= 0, np.clip(inv * made.random.normal(0.8, 0.05, size=attr.shape), inv * 1e-9, inv), 0.0)
    return Part(attr[:count], lo[:count], hi[:count], weight[:count])


def _begen_events(seed: int, block: int, count: int) -> Values:
    if block == 0:
        first = _begen(seed)[0]
        return first.event_attr[:count], first.event_value[:count]
    attr, value, _ = _begen_again(seed, EVENT_STREAM, block)._events()
    return attr[:count], value[:count]


def _skew(rule: str, seed: int, block: int) -> Workload:
    """Rows depend on the rule alone, so another seed gives more of the same."""
    return skew.skew(rule, CHUNK, events=EVENTS, seed=seed_of_block(seed, block))


def _skew_subscriptions(rule: str, seed: int, block: int, count: int, until: int) -> Part:
    data = _skew(rule, seed, block)
    return Part(data.sub_attr[:count], data.sub_lo[:count], data.sub_hi[:count])


def _skew_events(rule: str, seed: int, block: int, count: int) -> Values:
    data = _skew(rule, seed, block)
    return data.event_attr[:count], data.event_value[:count]


def _mics(distribution: str, seed: int, block: int) -> Workload:
    return mics.mics(distribution, CHUNK, EVENTS, seed=seed_of_block(seed, block))


def _mics_subscriptions(distribution: str, seed: int, block: int, count: int, until: int) -> Part:
    data = _mics(distribution, seed, block)
    return Part(data.sub_attr[:count], data.sub_lo[:count], data.sub_hi[:count])


def _mics_events(distribution: str, seed: int, block: int, count: int) -> Values:
    data = _mics(distribution, seed, block)
    return data.event_attr[:count], data.event_value[:count]


@lru_cache(maxsize=2)
def _zipf(dimensions: int, seed: int, block: int) -> zipf.Scored:
    return zipf.more(seed, block, intervals=CHUNK, queries=EVENTS, dimensions=dimensions)


def _zipf_subscriptions(dimensions: int, seed: int, block: int, count: int, until: int) -> Part:
    data, weight = _zipf(dimensions, seed, block)
    return Part(data.sub_attr[:count], data.sub_lo[:count], data.sub_hi[:count], weight[:count])


def _zipf_events(dimensions: int, seed: int, block: int, count: int) -> Values:
    data = _zipf(dimensions, seed, block).workload
    return data.event_attr[:count], data.event_value[:count]


BOX_ATTRIBUTES, WIDEST_BOX = 5, 0.5


def _box_attributes(count: int) -> I32:
    return np.tile(np.arange(BOX_ATTRIBUTES, dtype=np.int32), (count, 1))


def _boxes(seed: int, block: int, count: int, until: int) -> Part:
    lo, hi = rectangles.boxes(CHUNK, BOX_ATTRIBUTES, WIDEST_BOX, seed_of_block(seed, block))
    return Part(_box_attributes(count), lo[:count], hi[:count])


def _box_events(seed: int, block: int, count: int) -> Values:
    random = np.random.default_rng([seed, EVENT_STREAM, block])
    return _box_attributes(count), random.integers(0, rectangles.BOX_DOMAIN, (EVENTS, BOX_ATTRIBUTES))[:count]


# --- by name -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """A workload without end."""

    seed: int
    attributes: int
    subscriptions: Callable[[int, int, int, int], Part]
    """(seed, block, count, until)"""
    events: Callable[[int, int, int], Values]
    """(seed, block, count)"""
    weighted: bool = False
    chunk: int = CHUNK


def _standard(name: str, seed: int, attributes: int) -> Source:
    return Source(seed, attributes, partial(subscriptions, name), partial(events, name))


SOURCES: dict[str, Source] = {
    "w1": _standard("w1", 20240601, 400),
    "w1u": _standard("w1u", 20240603, 400),
    "w1z": _standard("w1z", 20240604, 400),
    "w2": _standard("w2", 20240602, 5),
    "begen": Source(begen.Setting().seed, 400, _begen_subscriptions, _begen_events, weighted=True),
    **{
        f"skew-{rule}": Source(2003, 2, partial(_skew_subscriptions, rule), partial(_skew_events, rule))
        for rule in skew.RULES
    },
    **{
        f"mics-{name}": Source(2008, mics.ATTRIBUTES, partial(_mics_subscriptions, name), partial(_mics_events, name))
        for name in mics.DISTRIBUTIONS
    },
    **{
        name: Source(20080824, d, partial(_zipf_subscriptions, d), partial(_zipf_events, d), weighted=True)
        for name, d in (("zipf", 1), ("zipf-4", 4))
    },
    "rectangles": Source(7, BOX_ATTRIBUTES, _boxes, _box_events),
}
"""Every workload that is rectangles of numbers."""
