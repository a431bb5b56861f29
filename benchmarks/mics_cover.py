"""MICS, the side of subscriptions: Figures 7 to 9, 11 and 12, and merging on a budget; every answer compared.

    python benchmarks/mics_cover.py [--quick] [--json FILE] [--only traffic,times,ranges,exact,covering,merging]

traffic   Figure 7: subscriptions forwarded to a neighbour without and with covering, and with subsumption; Zipf, size
          4, 2 to 4 dimensions. Bars: fewer with each; subsumption saves more over covering in fewer dimensions
times     Figures 8 and 9: insertion (Algorithm 1) and covering at 20,000 to 150,000 subscriptions of size 2, uniform
          and Zipf; conversion to ranges apart. The rival is a compiled loop over rows that leaves a row at the first
          bound that fails and stops at the first row that covers. Bars: from the least to the most subscriptions
          covering takes at most FLAT times as long; at 100,000 it is at least 10 x faster than the rival; verdicts
          equal those of linear subsumption, cell by cell
ranges    Figures 11 and 12: ranges stored after covering, subsumption and merging, against dimensions and sizes, and
          the share of all cells that they claim. Bars, as long as that is less than half: ranges rise with dimensions
          and sizes, and Zipf needs fewer than uniform. (In a space that is nearly full, ranges merge into few.)
exact     the boxes themselves: verdicts on subscriptions of size 4 whose ends lie inside cells, with candidates from a
          scan of all and from Subscription Indexing: how many, and the time of both. Then Table 3's setting, 3 of 7
          attributes: candidates of a subscription. Bars: both give the same verdicts, to the last letter; at 100,000
          finding candidates is 10 x faster by the index, where they are under one in a hundred; at the usual bound on
          work at most one verdict in twenty is left undecided
covering  who covers a subscription, and whom it covers: Subscription Indexing beside the other covering indexes, among
          100,000 subscriptions of sizes 2 to 32. Bars: all answers equal; faster than the compiled scan both ways; who
          covers it in 3-d and 4-d, 10 x faster
merging   conditions left under budgets of 0 to 20 % extra traffic, with the share measured on held-back events. Bar:
          held back at most 1.25 x the budget (chance: one in twenty is above the budget itself)

Exit code 1 when a bar is missed or an answer is wrong. Times are processor time of one thread.
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

from cover import clocked, told
from earmark.cover import builder
from earmark.cover.exact import Verdict, clauses_that_meet, decide
from earmark.cover.indexes.mics import Mics
from earmark.cover.merging.merge import merge_segment
from earmark.cover.ranges.subsumption import RangeBatch, take_in_many
from earmark.cover.ranges.table import Ranges, RangeTable, as_ranges
from earmark.curves import hilbert
from earmark.events.frames import encode_many
from earmark.flat.arrays import I64
from earmark.index.mics import MicsIndex
from earmark.segment.arrays import SegmentArrays
from earmark.workload.mics import CELLS, mics
from earmark.workload.rectangles import table_of
from linear_boxes import LinearBoxes
from results import Figure, Result

T = TypeVar("T")
BITS = 8
FLAT, LINEAR_BAR, HELD_BAR = 3.0, 10.0, 1.25
HALF = 0.5
DISTRIBUTIONS = ("uniform", "zipf")
STEPS = ("conversion", "insertion", "insertion in a batch", "covering", "linear")
EXACT_TIMES = ("candidates by scan", "candidates by index", "verdict by scan", "verdict by index")
COVERING = ("linear", "kd_tree", "z_curve", "blocks", "mics")
PAPER_3 = {
    "uniform": {20_000: 1, 60_000: 1, 100_000: 1, 150_000: 1},
    "zipf": {20_000: 64, 60_000: 232, 100_000: 414, 150_000: 600},
}
"""Table 3: subscriptions left to evaluate."""


def drawn(distribution: str, count: int, dimensions: int, size: int) -> tuple[I64, I64]:
    """Boxes of cells: the paper's subscriptions are whole cells."""
    made = mics(distribution, count, 1, attributes=dimensions, sizes=size)
    return made.sub_lo, made.sub_hi


def converted(low: I64, high: I64) -> RangeBatch:
    """Boxes of cells as ranges of the curve."""
    return RangeBatch(*hilbert.ranges(low, high, BITS))


def filled(batch: RangeBatch, count: int) -> RangeTable:
    """A table of the first so many subscriptions."""
    table = RangeTable()
    table.subscribe(Ranges(batch.first[: batch.start[count]], batch.last[: batch.start[count]]))
    return table


# --- parts -------------------------------------------------------------------------------------------------------


def traffic(quick: bool) -> tuple[list[Figure], bool]:
    """Figure 7."""
    counts = [10_000] if quick else [20_000, 60_000, 100_000]
    figures, good = [], True
    print("\nFigure 7: subscriptions forwarded to a neighbour, Zipf, size 4")
    print("  dimensions  subscriptions   with covering   with subsumption")
    for count in counts:
        saved = {}
        for dimensions in (2, 3, 4):
            low, high = drawn("zipf", count, dimensions, 4)
            batch, table, rows = converted(low, high), RangeTable(), LinearBoxes(dimensions)
            covering = subsumption = 0
            for i in range(count):
                if not rows.covered(low[i : i + 1], high[i : i + 1])[0]:
                    rows.add(low[i : i + 1], high[i : i + 1])
                    covering += 1
                subsumption += bool(table.subscribe(batch.of(i)))
            print(f"  {dimensions:10}  {count:13,}   {covering:13,}   {subsumption:16,}", flush=True)
            saved[dimensions] = covering / subsumption
            for name, value in (("covering", covering), ("subsumption", subsumption)):
                figures.append(Figure(f"zipf, {dimensions}-d", count, name, "forwarded", "subscriptions", [value]))
            good &= told("fewer with covering, and fewer again with subsumption", count > covering > subsumption)
        good &= told("subsumption saves more over covering in fewer dimensions", saved[2] > saved[3] > saved[4])
    return figures, good


def times(quick: bool) -> tuple[list[Figure], bool]:
    """Figures 8 and 9."""
    counts = [20_000, 100_000] if quick else [20_000, 60_000, 100_000, 150_000]
    queries, figures, good = 500, [], True
    print("\nFigures 8 and 9: µs a subscription of size 2; covering by the table and by the compiled linear algorithm")
    print("  data           subscriptions  conversion  insertion  in a batch   covering      linear  linear / covering")
    for distribution in DISTRIBUTIONS:
        for dimensions in (2, 3, 4):
            low, high = drawn(distribution, counts[-1] + queries, dimensions, 2)
            spent: dict[int, float] = {}
            for count in counts:
                row = _timed(low, high, count, queries)
                conversion, insertion, together, covering, linear, right = row
                good &= right or told("covering by the table and linear subsumption disagree", False)
                spent[count] = covering
                ratio = linear / covering
                name = f"{distribution}, {dimensions}-d"
                print(
                    f"  {name:13}  {count:13,}  {conversion:10.2f} {insertion:10.2f} {together:11.2f} {covering:10.3f}"
                    f" {linear:11.2f}  {ratio:12.0f} x",
                    flush=True,
                )
                for what, value in zip(STEPS, row, strict=False):
                    figures.append(Figure(name, count, "mics", what, "µs/subscription", [value]))
                if count == 100_000:
                    good &= told(f"{ratio:.0f} x at 100,000, bar {LINEAR_BAR:.0f}", ratio >= LINEAR_BAR)
            growth = spent[counts[-1]] / spent[counts[0]]
            good &= told(f"covering grows {growth:.1f} x from least to most, bar {FLAT:.0f}", growth <= FLAT)
    return figures, good


def _timed(low: I64, high: I64, count: int, queries: int) -> tuple[float, float, float, float, float, bool]:
    """µs of conversion, insertion, insertion in a batch, covering and linear covering, and whether answers agree."""
    new = slice(count, count + queries)
    batch = converted(low[: count + queries], high[: count + queries])
    table, rows = filled(batch, count), LinearBoxes(low.shape[1])
    rows.add(low[:count], high[:count])
    asked = RangeBatch(*hilbert.ranges(low[new], high[new], BITS))
    conversion = min(clocked(lambda: hilbert.ranges(low[new], high[new], BITS))[0] for _ in range(3))
    table.covered_batch(*asked)
    covering, inside = min((clocked(lambda: table.covered_batch(*asked)) for _ in range(7)), key=lambda pair: pair[0])
    rows.covered(low[:1], high[:1])
    linear, pairwise = min((clocked(lambda: rows.covered(low[new], high[new])) for _ in range(2)), key=lambda p: p[0])
    right = bool((rows.subsumed(low[new], high[new]) == inside).all()) and bool((inside | ~pairwise).all())
    insertion, told_one = clocked(lambda: [bool(table.take_in(asked.of(i))[0]) for i in range(queries)])
    again = filled(batch, count)
    together, told_all = clocked(lambda: take_in_many(again, asked))
    right &= told_all.tolist() == told_one and again.ranges().pairs() == table.ranges().pairs()
    each = 1e6 / queries
    return conversion * each, insertion * each, together * each, covering * each, linear * each, right


def ranges(quick: bool) -> tuple[list[Figure], bool]:
    """Figures 11 and 12."""
    counts = [20_000, 60_000] if quick else [20_000, 60_000, 100_000, 150_000]
    figures, good = [], True

    def stored(distribution: str, count: int, dimensions: int, size: int) -> tuple[int, float]:
        batch = converted(*drawn(distribution, count, dimensions, size))
        found = as_ranges(Ranges(batch.first, batch.last))
        if count == counts[0]:
            assert len(found.first) == len(filled(batch, count)), "the table and a union made at once disagree"
        name = f"{distribution}, {dimensions}-d, size {size}"
        figures.append(Figure(name, count, "mics", "stored ranges", "ranges", [len(found.first)]))
        return len(found.first), float((found.last - found.first + 1).sum()) / CELLS**dimensions

    for title, cases in (
        ("Figure 11: stored ranges by dimensions, size 2", [(d, 2) for d in (2, 3, 4)]),
        ("Figure 12: stored ranges by size, 3 dimensions", [(3, s) for s in (2, 4, 8)]),
    ):
        print(f"\n{title}; as a multiple of the d ranges a subscription asked for, and the share of cells claimed")
        for count in counts:
            before = dict.fromkeys(DISTRIBUTIONS, 0)
            for dimensions, size in cases:
                found = {name: stored(name, count, dimensions, size) for name in DISTRIBUTIONS}
                line = "   ".join(
                    f"{name} {value:10,} ({value / (count * dimensions):5.2f} x, {share:5.1%})"
                    for name, (value, share) in found.items()
                )
                print(f"  {count:8,}  {dimensions}-d size {size}   {line}", flush=True)
                for name, (value, share) in found.items():
                    if share < HALF and value <= before[name]:
                        good &= told(f"{name}: ranges rise with dimensions and size", False)
                    before[name] = value
                if found["uniform"][1] < HALF and found["zipf"][0] >= found["uniform"][0]:
                    good &= told("Zipf needs fewer ranges than uniform", False)
    return figures, good


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
    return figures + _table_3(quick), good


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
    built, index = clocked(lambda: Mics.build(table))

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


def _table_3(quick: bool) -> list[Figure]:
    """Candidates of a subscription: the paper's grid on three of seven attributes, then the same with the sieve."""
    figures = []
    print("\nTable 3: candidates of a subscription, 3 of 7 attributes indexed, size 4; 300 subscriptions")
    print("  data     subscriptions     paper   lists alone   with the sieve   our choice of cells")
    for distribution, paper in PAPER_3.items():
        for count in (20_000, 100_000) if quick else sorted(paper):
            table, asked = mics(distribution, count, 1).table(), mics(distribution, 300, 1, seed=1).table()
            index = MicsIndex.build(table, attributes=(0, 1, 2), bits=BITS + 1, cells="equal")
            every = np.arange(300, dtype=np.int32)
            found = [
                len(index.meeting(asked, every)[1]) / 300,
                len(index.meeting(asked, every, sifted=True)[1]) / 300,
                len(MicsIndex.build(table).meeting(asked, every, sifted=True)[1]) / 300,
            ]
            lists, sifted, own = found
            print(
                f"  {distribution:8} {count:13,} {paper[count]:9} {lists:13.1f} {sifted:16.2f} {own:21.2f}", flush=True
            )
            for what, value in zip(("lists", "sifted", "own cells"), found, strict=True):
                figures.append(Figure(f"{distribution}, 7-d", count, "table 3", what, "candidates", [value]))
    return figures


def covering(quick: bool) -> tuple[list[Figure], bool]:
    """Subscription Indexing as a covering index."""
    count, asked, figures, good = 100_000, 50 if quick else 200, [], True
    print(f"\nCovering among {count:,} subscriptions of sizes 2 to 32, {asked} questions one by one, medians in µs")
    print("  data           " + "".join(f"{name:>10}" for name in COVERING) + "    covered: scan   mics")
    random = np.random.default_rng(7)
    for distribution in DISTRIBUTIONS:
        for dimensions in (2, 3, 4):
            low, _ = drawn(distribution, count, dimensions, 1)
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
            seconds, found = clocked(lambda: merge_segment(matcher._version.whole, encoded, budget))  # noqa: B023
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


PARTS = {"traffic": traffic, "times": times, "ranges": ranges, "exact": exact, "covering": covering, "merging": merging}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer subscriptions")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to run  [default: all]")
    options = parser.parse_args()
    assert CELLS == 1 << BITS
    begun = time.perf_counter()
    figures: list[Figure] = []
    good = True
    for name in options.only.split(","):
        more, held = PARTS[name](options.quick)
        figures += more
        good &= held
    print(f"\n{time.perf_counter() - begun:.0f} s; {'all bars held' if good else 'A BAR WAS MISSED'}")
    if options.json:
        Result("mics_cover", {"quick": options.quick, "only": options.only}, figures).write(options.json)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
