"""Subscribes and unsubscribes of random rectangles: the experiments of Shen, Tirthapura & Aluru, Section V-A.

A stream of commands. With probability p a command removes one of the rectangles that are there, each as likely as the
others; otherwise it brings a new one, each side of which runs between two random points of [0, 2^m − 1]. The paper's
*dimension* is that of dominance space: twice the number of attributes.

    p = 5 %     heavy load: nearly everything stays       60,000 commands: 54,000 rectangles at the end
    p = 40 %    light load                                                 12,000

The paper does not print m; here it is 20. An unsubscribe drawn while nothing is there becomes a subscribe.

`boxes` makes another kind: rectangles around random centres, for questions asked in batches.

Which numbers are drawn, in which order, is fixed by the seed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.flat.arrays import I32, I64
from earmark.segment.arrays import SegmentArrays
from earmark.workload.standard import check, dense

RANGE_BITS = 20
BOX_DOMAIN = 30_000


class Commands(NamedTuple):
    """Commands over rectangles: the slot of each, numbered by arrival, and whether it subscribes."""

    subscribes: np.ndarray
    slot: I32
    lo: I64
    hi: I64

    def table(self) -> SegmentArrays:
        """Return all rectangles of the stream, by slot; sequence = slot."""
        return table_of(self.lo, self.hi)


def commands(count: int, dimension: int, p: float, seed: int = 20050401, bits: int = RANGE_BITS) -> Commands:
    """Draw `count` commands over rectangles of dimension / 2 attributes; `p` is the share of unsubscribes."""
    check(count >= 1, f"expected at least one command, got {count}")
    check(dimension >= 2 and dimension % 2 == 0, f"expected an even dimension, 2 or more, got {dimension}")
    check(0 <= p < 0.5, f"expected p, the share of unsubscribes, from 0 to below 0.5, got {p}")
    random = np.random.default_rng(seed)
    leaves, pick = random.random(count) < p, random.random(count)
    subscribes, slot = np.ones(count, bool), np.empty(count, np.int32)
    live: list[int] = []
    arrived = 0
    for i in range(count):
        if leaves[i] and live:
            place = int(pick[i] * len(live))
            live[place], live[-1] = live[-1], live[place]
            subscribes[i], slot[i] = False, live.pop()
        else:
            slot[i] = arrived
            live.append(arrived)
            arrived += 1
    ends = random.integers(0, 1 << bits, (2, arrived, dimension // 2))
    return Commands(subscribes, slot, ends.min(axis=0), ends.max(axis=0))


def boxes(count: int, attributes: int, widest: float, seed: int = 7) -> tuple[I64, I64]:
    """Draw rectangles (lo, hi) around uniform centres, of widths from 2 % of the domain to the share `widest` of it."""
    random = np.random.default_rng(seed)
    centre = random.integers(0, BOX_DOMAIN, (count, attributes))
    half = (random.uniform(0.02, widest, (count, attributes)) * BOX_DOMAIN).astype(np.int64) // 2
    return (centre - half).clip(0), (centre + half).clip(0, BOX_DOMAIN - 1)


def table_of(lo: I64, hi: I64) -> SegmentArrays:
    """Return rectangles as arrays: one clause per slot, one interval per constraint, sequence = slot."""
    return dense(lo, hi, lo[:0], 0).table()
