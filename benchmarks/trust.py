"""What does a read cost after a value of another kind, and a removal after many others?

    python benchmarks/trust.py [--quick]

fractions   200,000 rules with whole bounds; single matches before and after the first event with a fraction. Bar: no
            call above 5 times the median, measured by processor time, since other programs stop any call for longer.
removals    single removals from an index that is built again, the first thousand against the last. Bar: 2 times.
wide        one rule with a bound beyond 2^53, which gives the attribute other keys: what it and later reads cost.

`--quick` takes a tenth. Exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from earmark import Matcher

RULES, REMOVALS, CALLS = 200_000, 60_000, 2_000
WORST_BAR, GROWTH_BAR = 5.0, 2.0


def book(rules: int, index: str) -> Matcher:
    """Rules `price BETWEEN int AND int`, each true for about five prices."""
    low = np.random.default_rng(1).integers(0, rules // 20, rules)
    m = Matcher(index)
    m.add_many(pa.table({"id": np.arange(rules), "price_lo": low, "price_hi": low + 5}), progress=False)
    return m


def costs(call: Callable[[int], object], count: int) -> np.ndarray:
    """Processor time of each of so many calls, in µs; the collector, which any program can run, is held back."""
    spent = np.empty(count)
    gc.disable()
    try:
        for i in range(count):
            begun = time.thread_time_ns()
            call(i)
            spent[i] = (time.thread_time_ns() - begun) / 1e3
    finally:
        gc.enable()
    return spent


def fractions(rules: int, index: str) -> bool:
    """Whether no read stands out."""
    m = book(rules, index)
    for warm in (5, 5.5):
        m.match({"price": warm})
    m = book(rules, index)
    m.match({"price": 5})
    spent = costs(lambda i: m.match({"price": i + 0.5 if i % 2 else i}), CALLS)
    worst = spent.max() / np.median(spent)
    print(f"{index}: {rules:,} rules, {CALLS:,} events, every other one with a fraction: median {np.median(spent):.0f} "
          f"µs, worst {spent.max():.0f} µs (call {spent.argmax()}), {worst:.1f} x (bar {WORST_BAR})")  # fmt: skip
    return bool(worst <= WORST_BAR)


def removals(count: int) -> bool:
    """Whether the last removals cost what the first did."""
    m = book(4 * count, "blocks")
    spent = costs(m.remove, count)
    first, last = np.median(spent[:1000]), np.median(spent[-1000:])
    print(f"blocks: {count:,} removals, one by one: the first 1,000 {first:.0f} µs each, the last {last:.0f}, "
          f"{last / first:.2f} x (bar {GROWTH_BAR})")  # fmt: skip
    return bool(last <= GROWTH_BAR * first)


def wide(rules: int) -> None:
    """What the first bound beyond 2^53 costs."""
    m = book(rules, "be_star_tree")
    m.match({"price": 5})
    before = np.median(costs(lambda i: m.match({"price": i + 0.5}), 500))
    begun = time.perf_counter()
    m.add(rules, "price = 9007199254740993")
    took = time.perf_counter() - begun
    after = np.median(costs(lambda i: m.match({"price": i + 0.5}), 500))
    print(f"be_star_tree: a bound beyond 2^53 among {rules:,} rules: that write {took:.2f} s; a match {before:.0f} µs "
          f"before, {after:.0f} µs after")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    share = 10 if parser.parse_args().quick else 1
    held = [fractions(RULES // share, index) for index in ("be_star_tree", "blocks")]
    held.append(removals(REMOVALS // share))
    wide(RULES // share)
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
