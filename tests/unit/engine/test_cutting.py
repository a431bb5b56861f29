"""Shards, their covers and the routing: whatever the cut, no event misses a shard that holds a match for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.unit.made import Maker, event_arrays, score, table_arrays

from earmark.book.segments import read_router, write_router
from earmark.engine import cutting
from earmark.engine.covers import MEMBERS, bounds_of, covers_of, met
from earmark.engine.router import Router
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.flat import bits
from earmark.flat.arrays import I64, frozen
from earmark.index.scan import Scan
from earmark.keys.schema import FLOAT_NAN_KEY
from earmark.segment.arrays import SegmentArrays, boxes_table, gather
from earmark.workload.standard import Workload, w1, w2

SEEDS = range(30)


def cuts(table: SegmentArrays, shards: int) -> list[cutting.Cut]:
    """Both ways to cut, and the one that would be taken."""
    bounds = bounds_of(cutting.first_clauses(table))
    made: list[cutting.Cut] = [cutting._regions(bounds, table.sequence, shards)]
    if bounds.clauses:
        made.append(cutting._clusters(bounds, shards))
    return [*made, cutting.learned(table, shards)]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_match_is_missed(seed: int) -> None:
    """NULLs, ORs, lists, empty constraints, interval events, clauses without constraints, subscriptions without any."""
    maker = Maker(seed)
    made = maker.made(maker.random.choice((1, 7, 60)), 20)
    table, events = table_arrays(made), event_arrays(made, made.events)
    shards = maker.random.choice((2, 3, 7))
    for number, cut in enumerate(cuts(table, shards)):
        shard = cutting.shards_of(table, cut)
        assert len(shard) == len(table.sequence)
        assert shard.min(initial=0) >= 0 and shard.max(initial=0) < shards
        most = maker.random.choice((1, 4, None))
        like = maker.random.choice((None, cutting.proxies(table)))
        covers = [covers_of(gather(table, np.flatnonzero(shard == s)), like, most) for s in range(shards)]
        for own, row in zip(covers, range(shards), strict=True):
            reached = set(met(own, events).tolist())
            for event, values in enumerate(made.events):
                for slot in np.flatnonzero(shard == row).tolist():
                    if score(made.subscriptions[slot], values, relaxed=False) is not None:
                        assert event in reached, (number, slot, event)


def test_the_router_is_its_covers(tmp_path: Path) -> None:
    maker = Maker(5)
    made = maker.made(60, 30)
    table, events = table_arrays(made), event_arrays(made, made.events)
    shard = np.arange(60) % 4
    covers = [covers_of(gather(table, np.flatnonzero(shard == s)), None, 8) for s in range(4)]
    router = Router.of(covers)
    router.check()
    stored = read_router(tmp_path / "router", write_router(tmp_path / "router", router), verify=True)
    stored.check()
    for one in (router, stored):
        starts, routed = one.route(events)
        assert starts[0] == 0 and starts[-1] == len(routed)
        for number, own in enumerate(covers):
            assert np.array_equal(routed[starts[number] : starts[number + 1]], met(own, events))


def test_some_events() -> None:
    made = Maker(3).made(5, 12)
    made.event_weighted = True
    whole = event_arrays(made, made.events)
    chosen = np.array([7, 2, 2, 11])
    wanted = event_arrays(made, [made.events[i] for i in chosen])
    for column, own in zip(some_events(whole, chosen), wanted, strict=True):
        assert np.array_equal(column, own)


def touched(table: SegmentArrays, events: EventArrays, shards: int) -> tuple[float, cutting.Cut, float]:
    """Shards met an event, the cut, and the largest shard against the average."""
    cut = cutting.learned(table, shards)
    shard = cutting.shards_of(table, cut)
    like = cutting.proxies(table)
    total = sum(len(met(covers_of(gather(table, np.flatnonzero(shard == s)), like), events)) for s in range(shards))
    return total / (len(events.start) - 1), cut, np.bincount(shard).max() * shards / len(shard)


@pytest.fixture(scope="module")
def dense() -> Workload:
    return w2(subscriptions=8_000)


def test_regions_for_dense_books(dense: Workload) -> None:
    mean, cut, largest = touched(dense.table(), dense.events(), 8)
    assert isinstance(cut, cutting.Regions)
    assert mean < 8 / 3 and largest < 1.2


def test_clusters_for_sparse_books() -> None:
    """What an event matches lies in one or two shards; dealt out, 13 matches would lie in nearly 7 of the 8."""
    data = w1(subscriptions=50_000)
    table = SegmentArrays._make(map(frozen, gather(data.table(), np.arange(0, 50_000, 4))))
    mean, cut, largest = touched(table, data.events(), 8)
    assert isinstance(cut, cutting.Clusters)
    assert mean < 7 and largest < 3
    shard = cutting.shards_of(table, cut)
    pointers, slots = Scan.build(table).match_many(data.events(), bits.all_set(len(shard)))
    homes = {(e, shard[slot]) for e in range(1_000) for slot in slots[pointers[e] : pointers[e + 1]]}
    assert len(slots) > 10_000 and len(homes) < 1_500


def test_equal_subscriptions_are_dealt_out(dense: Workload) -> None:
    """Nothing tells them apart: shards are of about the same size all the same."""
    same = gather(dense.table(), np.zeros(1_000, np.int64))._replace(sequence=np.arange(1_000))
    shard = cutting.shards_of(same, cutting._regions(bounds_of(same), same.sequence, 8))
    assert np.bincount(shard, minlength=8).min() > 60


def test_no_more_covers_than_help(dense: Workload) -> None:
    """Of a region that few events meet, a few covers say as much as many."""
    table = SegmentArrays._make(map(frozen, dense.table()))
    shard = cutting.shards_of(table, cutting._regions(bounds_of(table), table.sequence, 4))
    part = gather(table, np.flatnonzero(shard == 0))
    like = cutting.proxies(table)
    few, many = covers_of(part, like), covers_of(part)
    assert len(few.sequence) < len(many.sequence) <= len(part.sequence) // MEMBERS + 1
    assert len(met(few, like)) < 1.2 * len(met(many, like))


def test_a_small_shard_has_a_cover_for_each_clause(dense: Workload) -> None:
    """Every visit of a shard has a fixed cost, so covers are tight where there is little behind them."""
    table = SegmentArrays._make(map(frozen, gather(dense.table(), np.arange(600))))
    like = cutting.proxies(table)
    tight, usual = covers_of(table, like), covers_of(table, like, 600 // MEMBERS)
    assert len(tight.sequence) == 600 > len(usual.sequence)
    assert len(met(tight, like)) <= len(met(usual, like))


@pytest.mark.parametrize("count", [600, 6_000])
def test_one_cover_where_more_keep_no_events_away(count: int) -> None:
    """Every event would meet many covers, and be searched in the shard anyway."""
    lo, hi = np.arange(count, dtype=np.int64), np.full(count, 2 * count)
    table = one_attribute(lo, hi)
    like = cutting.proxies(one_attribute(np.full(count, 2 * count), hi))
    assert len(covers_of(table).sequence) > 60
    assert len(covers_of(table, like).sequence) == 1


def test_half_open_ranges() -> None:
    """`a > 3` has no middle: events are expected at its bound, and shards keep those below it away."""
    random = np.random.default_rng(1)
    lo, hi = random.integers(0, 1_000, 20_000), np.full(20_000, FLOAT_NAN_KEY)
    table = one_attribute(lo, hi)
    like = cutting.proxies(table)
    assert like.lo.min() >= 0 and like.lo.max() <= 1_000
    shard = cutting.shards_of(table, cutting.learned(table, 4))
    reached = [len(met(covers_of(gather(table, np.flatnonzero(shard == s)), like), like)) for s in range(4)]
    share = np.array(sorted(reached)) / (len(like.start) - 1)
    assert share == pytest.approx([0.25, 0.5, 0.75, 1.0], abs=0.1)


def one_attribute(lo: I64, hi: I64) -> SegmentArrays:
    """Ranges of one attribute."""
    count = len(lo)
    ends, zeros = np.arange(count + 1, dtype=np.int32), np.zeros(count, np.int32)
    return boxes_table(ends, zeros, zeros.astype(np.uint8), ends, lo, hi)
