"""Covering, subsumption and merging beyond what their papers measure; every answer compared.

    python benchmarks/covering.py [--quick] [--json FILE] [--only batch,audit,exact,covering,merging,cells]

batch     131,072 rectangles, "who covers me" for 1,000 others. Bar: under 5 µs per query by the best index
audit     `audit` of 100,000 subscriptions of 5 attributes. Bar: under 30 s
exact     the boxes themselves: verdicts on subscriptions of size 4 whose ends are inside cells, with candidates from a
          scan of all and from Subscription Indexing: how many, and the time of both. Bars: both give the same verdicts;
          at 100,000 finding candidates is 10 x faster by the index, where they are under one in a hundred; at the usual
          bound on work at most one verdict in twenty is left undecided
covering  who covers a subscription, and whom it covers: Subscription Indexing beside the other covering indexes, among
          100,000 subscriptions of sizes 2 to 32. Bars: all answers equal; faster than the compiled scan both ways; who
          covers it in 3-d and 4-d, 10 x faster
merging   conditions left under budgets of 0 to 20 % extra traffic, with the share measured on held-back events. Bar:
          held back at most 1.25 x the budget (chance: one in twenty is above the budget itself)
cells     variable against equal cells (section 6.3 of MICS): sent in vain on Zipf publications, as many cells each.
          Bar: fewer in vain on the paper's 256 cells per axis

`earmark paper shen` and `earmark paper mics` run the tables and figures of the papers. Exit code 1 when a bar is missed
or an answer is wrong. Times are processor time of one thread.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from earmark.cover import builder
from earmark.cover.exact import Verdict, clauses_that_meet, decide
from earmark.cover.indexes.blocks import SCANNED, CoverBlocks
from earmark.cover.indexes.mics import Mics
from earmark.cover.merging.merge import merge_segment
from earmark.cover.ranges.projection import Projection
from earmark.events.frames import encode_many
from earmark.flat import bits
from earmark.flat.arrays import I64
from earmark.index.mics import MicsIndex
from earmark.report.papers.mics.data import DISTRIBUTIONS, Boxes
from earmark.report.papers.mics.tables import INDEXED, wanted
from earmark.report.protocol import QUICK_REPEATS, REPEATS, clocked
from earmark.report.rivals.rows import Vectors
from earmark.segment.arrays import SegmentArrays
from earmark.workload.mics import CELLS, mics
from earmark.workload.rectangles import boxes, table_of
from results import Figure, Result

T = TypeVar("T")
BATCH_BAR, AUDIT_BAR, LINEAR_BAR, HELD_BAR = 5.0, 30.0, 10.0, 1.25
EXACT_TIMES = ("candidates by scan", "candidates by index", "verdict by scan", "verdict by index")
COVERING = ("linear", "kd_tree", "z_curve", "blocks", "mics")
FINE = 8
"""Bits of the paper's grid: learned cells must win there, and may not lose on a coarser one."""
SEED = 2008


def told(text: str, held: bool) -> bool:
    """Say whether a bar is held."""
    print(f"  {text} -> {'held' if held else 'MISSED'}", flush=True)
    return held


def batch(quick: bool) -> tuple[list[Figure], bool]:
    """Who covers me, for many at once."""
    members, queries, repeats = (16_384, 500, QUICK_REPEATS) if quick else (131_072, 1_000, REPEATS)
    found, good = [], True
    print(f"\nWho covers me: {members:,} rectangles, {queries:,} queries in one call, all answers; µs a query")
    for attributes, widest in ((3, 0.5), (5, 0.6), (8, 0.7)):
        table = table_of(*boxes(members + queries, attributes, widest))
        inside, asked = np.arange(members, dtype=np.int32), np.arange(members, members + queries, dtype=np.int32)
        built, index = clocked(lambda: CoverBlocks.build(table, inside), "process")  # noqa: B023
        assert (index.arrays.block_at != SCANNED).all()
        index.covering_batch(asked)
        runs = [clocked(lambda: index.covering_batch(asked), "process") for _ in range(repeats)]  # noqa: B023
        pointers, slots = runs[-1][1]
        kd, vectors = builder("kd_tree")(table, inside), Vectors.build(table, inside)
        rivals = {}
        for name, other in (("kd_tree, one by one", kd), ("scan, vectorised, one by one", vectors)):
            other.covering(int(asked[0]))
            rivals[name], answers = clocked(lambda: [other.covering(slot) for slot in asked.tolist()], "process")  # noqa: B023
            for i, answer in enumerate(answers):
                if sorted(answer.tolist()) != sorted(slots[pointers[i] : pointers[i + 1]].tolist()):
                    good = told(f"{name} and blocks disagree about query {i}", False)
        each = [1e6 * seconds / queries for seconds, _ in runs]
        found.append(Figure(f"batch, dimension {2 * attributes}", members, "blocks", "batch", "µs/query", each))
        line = "   ".join(f"{name} {1e6 * seconds / queries:.1f}" for name, seconds in rivals.items())
        middle = float(np.median(each))
        print(
            f"  dimension {2 * attributes:2}: blocks {middle:.2f} ({min(each):.2f} to {max(each):.2f})   {line}   "
            f"{len(slots) / queries:.1f} answers, built in {built:.2f} s, {index.nbytes / 2**20:.0f} MiB"
        )
        good &= told(f"under {BATCH_BAR:.0f} µs", middle < BATCH_BAR)
    return found, good


def audits(quick: bool) -> tuple[list[Figure], bool]:
    """Rule hygiene of many subscriptions."""
    from earmark import Matcher
    from earmark.cover.audit import audit

    count = 20_000 if quick else 100_000
    random = np.random.default_rng(3)
    lo, hi = boxes(count, 5, 0.6, seed=4)
    copied = random.random(count) < 0.05
    lo[copied], hi[copied] = lo[np.flatnonzero(copied) // 2], hi[np.flatnonzero(copied) // 2]
    rows = [
        (i, " AND ".join(f"a{j} BETWEEN {a} AND {b}" for j, (a, b) in enumerate(zip(*pair, strict=True))))
        for i, pair in enumerate(zip(lo.tolist(), hi.tolist(), strict=True))
    ]
    matcher = Matcher()
    matcher.add_many(rows, progress=False)
    view = matcher._version.whole
    audit(view, bits.all_set(len(view))[:1])
    seconds, found = clocked(lambda: audit(view), "process")
    print(f"\nAudit of {count:,} subscriptions of 5 attributes\n{found.report(2)}")
    figures = [Figure("audit", count, "audit", "audit", "s", [seconds])]
    return figures, told(f"{seconds:.2f} s, bar {AUDIT_BAR:.0f}", seconds < AUDIT_BAR)


def exact(quick: bool) -> tuple[list[Figure], bool]:
    """Box minus union of boxes."""
    asked, figures, good = 50 if quick else 200, [], True
    for count in (20_000, 100_000):
        print(f"\nExact subsumption among {count:,} subscriptions of size 4, cells of 16 values; medians of {asked}")
        print("                 candidates          to find them, µs          a verdict, µs            index")
        print("  data           index   that meet     scan  index              scan  index              made in")
        for distribution in DISTRIBUTIONS:
            for dimensions in (2, 3, 4):
                name = f"{distribution}, {dimensions}-d"
                table = mics(distribution, count, 1, attributes=dimensions, sizes=4, grain=16).table()
                found = _decided(table, np.arange(0, count, count // asked).tolist())
                few = found.verdicts[Verdict.UNDECIDED] * 20 <= asked
                good &= few or told("most verdicts are reached", False)
                good &= found.equal or told("verdicts of scan and index differ", False)
                verdicts = ", ".join(f"{number} {what}" for what, number in sorted(found.verdicts.items()))
                scan, index, by_scan, by_index = (float(np.median(column)) for column in found.spent)
                print(
                    f"  {name:13} {found.candidates:7.1f}  {found.meeting:8.1f}   {scan:8.0f} {index:6.0f}"
                    f" ({scan / index:4.0f} x) {by_scan:8.0f} {by_index:6.0f} ({by_scan / by_index:4.0f} x)"
                    f" {found.built:7.2f} s   {verdicts}",
                    flush=True,
                )
                for what, column in zip(EXACT_TIMES, found.spent, strict=True):
                    figures.append(Figure(name, count, "exact", what, "µs", column))
                figures.append(Figure(name, count, "exact", "candidates", "subscriptions", [found.candidates]))
                if count == 100_000 and found.candidates < count / 100:
                    good &= scan >= LINEAR_BAR * index or told(f"{scan / index:.0f} x, bar {LINEAR_BAR:.0f}", False)
    return figures, good


class Decided(NamedTuple):
    """Verdicts both ways: candidates and those that meet, on average; µs of each question (`EXACT_TIMES`); verdicts,
    and whether they are equal; seconds to make the index.
    """

    candidates: float
    meeting: float
    spent: list[list[float]]
    verdicts: Counter[str]
    equal: bool
    built: float


def _decided(table: SegmentArrays, slots: list[int]) -> Decided:
    everyone = np.arange(len(table.sequence), dtype=np.int64)
    Mics.build(table, everyone[:1000].astype(np.int32))
    built, index = clocked(lambda: Mics.build(table), "process")

    def scanned(slot: int) -> I64:
        return clauses_that_meet(table, int(table.clause_start[slot]), everyone)[0]

    def found(slot: int) -> I64:
        return index.meeting(slot).astype(np.int64)

    by_scan, meeting = _each(scanned, slots)
    by_index, candidates = _each(found, slots)
    slow, wanted = _each(lambda slot: decide(table, slot, everyone), slots)
    fast, verdicts = _each(lambda slot: decide(table, slot, found(slot)), slots)
    return Decided(
        sum(map(len, candidates)) / len(slots),
        sum(map(len, meeting)) / len(slots),
        [by_scan, by_index, slow, fast],
        Counter(str(one.verdict) for one in verdicts),
        wanted == verdicts,
        built,
    )


def _each(ask: Callable[[int], T], slots: list[int]) -> tuple[list[float], list[T]]:
    """µs of processor time of each question, the better of two, and the answers. The garbage collector waits."""
    gc.collect()
    gc.disable()
    spent, answers = [], []
    for slot in slots:
        times = []
        for _ in range(2):
            begun = time.process_time_ns()
            answer = ask(slot)
            times.append((time.process_time_ns() - begun) / 1e3)
        spent.append(min(times))
        answers.append(answer)
    gc.enable()
    return spent, answers


def covering(quick: bool) -> tuple[list[Figure], bool]:
    """Subscription Indexing as a covering index."""
    count, asked, figures, good = 100_000, 50 if quick else 200, [], True
    print(f"\nCovering among {count:,} subscriptions of sizes 2 to 32, {asked} questions one by one, medians in µs")
    print("  data           " + "".join(f"{name:>10}" for name in COVERING) + "    covered: scan   mics")
    random = np.random.default_rng(7)
    for distribution in DISTRIBUTIONS:
        for dimensions in (2, 3, 4):
            low = Boxes.drawn(distribution, count, dimensions, 1, SEED).low
            table = table_of(low, np.minimum(low + random.integers(1, 32, low.shape), CELLS - 1))
            slots = np.arange(0, count, count // asked).tolist()
            spent, answers = {}, {}
            for name in COVERING:
                index = builder(name)(table)
                spent[name], found = _each(index.covering, slots)
                answers[name] = [sorted(one.tolist()) for one in found]
                if name in ("linear", "mics"):
                    spent[f"{name}, covered"], found = _each(index.covered, slots)
                    answers[f"{name}, covered"] = [one.tolist() for one in found]
            good &= all(answers[name] == answers["linear"] for name in COVERING) or told("answers differ", False)
            good &= answers["linear, covered"] == answers["mics, covered"] or told("answers differ", False)
            middle = {name: float(np.median(column)) for name, column in spent.items()}
            data = f"{distribution}, {dimensions}-d"
            line = "".join(f"{middle[name]:10.1f}" for name in COVERING)
            print(f"  {data:13}  {line} {middle['linear, covered']:16.0f} {middle['mics, covered']:6.0f}", flush=True)
            for name, column in spent.items():
                figures.append(Figure(data, count, name, "covering", "µs", column))
            for way, bar in (("", LINEAR_BAR if dimensions > 2 else 1.0), (", covered", 1.0)):
                ratio = middle["linear" + way] / middle["mics" + way]
                good &= ratio > bar or told(f"mics{way}: {ratio:.1f} x the speed of a scan, bar {bar:.0f}", False)
    return figures, good


def merging(quick: bool) -> tuple[list[Figure], bool]:
    """Budgets in, conditions and measured extra traffic out."""
    import pyarrow as pa

    from earmark import Matcher

    count, events = (5_000, 12_000) if quick else (100_000, 60_000)
    figures, good = [], True
    print(f"\nMerging {count:,} subscriptions of size 4 in 3-d, cells of 16 values; {events:,} events, half held back")
    print("  data     budget  conditions  decided on   held back   seconds")
    for distribution in DISTRIBUTIONS:
        made = mics(distribution, count, events, attributes=3, sizes=4, grain=16)
        bounds = {
            f"a{j}_{end}": side[:, j] for j in range(3) for end, side in (("lo", made.sub_lo), ("hi", made.sub_hi))
        }
        matcher = Matcher(index="scan")
        matcher.add_many(pa.table({"id": np.arange(count), **bounds}))
        encoded = encode_many(
            matcher._version.whole.schema, pa.table({f"a{j}": made.event_value[:, j] for j in range(3)})
        )
        for budget in (0.0, 0.02, 0.2):
            seconds, found = clocked(lambda: merge_segment(matcher._version.whole, encoded, budget), "process")  # noqa: B023
            held = found.held_back.share
            print(
                f"  {distribution:8} {budget:6.0%}  {len(found):10,}  {found.decided.share:10.2%}  {held:10.2%}"
                f"  {seconds:8.1f}",
                flush=True,
            )
            for what, value in (("conditions", len(found)), ("held back", held)):
                figures.append(Figure(distribution, count, f"merging, {budget:.0%}", what, "share", [value]))
            good &= held <= HELD_BAR * budget or told("more extra traffic than the budget", False)
    return figures, good


def cells(quick: bool) -> tuple[list[Figure], bool]:
    """Cells learned from past publications against as many of equal width."""
    publications, figures, good = 2_000 if quick else 10_000, [], True
    print(f"\nVariable cells: sent in vain of {publications:,} Zipf publications, 3 attributes of 256 x 64 values")
    print("  subscriptions   cells   in vain: equal  learned   candidates: equal   learned")
    for size in (2_000, 20_000):
        both = mics("zipf", size, 2 * publications, attributes=3, grain=64)
        past, workload = (
            both._replace(event_attr=both.event_attr[part], event_value=both.event_value[part])
            for part in (slice(publications), slice(publications, None))
        )
        table, events, every, right = workload.table(), workload.events(), bits.all_set(size), wanted(workload)
        for depth in (4, 5, 6, 7, FINE):
            vain, candidates = [], []
            for kind, learn in (("equal", None), ("variable", past.events())):
                sent = Projection.build(table, attributes=INDEXED, bits=depth, events=learn).sends(events)
                good &= not (right & ~sent).any() or told("a publication that is wanted was not sent", False)
                vain.append(int((sent & ~right).sum()))
                index = MicsIndex.build(table, attributes=INDEXED, bits=depth, cells=kind, events=learn)
                index.match_many(events, every)
                candidates.append(index.work.candidates / publications)
                figures.append(Figure(f"zipf, {1 << depth} cells", size, kind, "in vain", "publications", [vain[-1]]))
            print(
                f"  {size:13,} {1 << depth:7} {vain[0]:16,} {vain[1]:8,} {candidates[0]:19.2f} {candidates[1]:9.2f}",
                flush=True,
            )
            good &= told("learned cells send fewer in vain", vain[1] < vain[0] if depth == FINE else vain[1] <= vain[0])
    return figures, good


PARTS = {
    "batch": batch,
    "audit": audits,
    "exact": exact,
    "covering": covering,
    "merging": merging,
    "cells": cells,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller tables and batches")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run  [default: all]")
    options = parser.parse_args()
    begun = time.perf_counter()
    figures: list[Figure] = []
    good = True
    for name in options.only.split(","):
        more, held = PARTS[name](options.quick)
        figures += more
        good &= held
    print(f"\n{time.perf_counter() - begun:.0f} s; {'all bars held' if good else 'A BAR WAS MISSED'}")
    if options.json:
        Result("covering", {"quick": options.quick, "only": options.only}, figures).write(options.json)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
