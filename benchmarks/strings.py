"""Keys of string constants: what a look-up, an insert and a new labelling cost.

    python benchmarks/strings.py            among 1,000,000 constants
    python benchmarks/strings.py --quick    among 100,000

One thread, best of three runs. Look-ups are of single values, as an event brings them; a column of a frame looks up
each distinct value once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from random import Random

import numpy as np

from earmark.keys.strings import StringKeys


def timed(work: Callable[[], object], runs: int = 3) -> float:
    """Seconds of the fastest run."""
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def report(what: str, seconds: float, count: int) -> None:
    """One line: the whole and the cost of one."""
    print(f"  {what:44} {seconds * 1e3:10.1f} ms {seconds / count * 1e6:10.3f} µs each")


def look_up(keys: StringKeys, values: list[bytes]) -> None:
    """Each value by itself."""
    of_value = keys.of_value
    for value in values:
        of_value(value)


def one_by_one(keys: StringKeys, constants: list[bytes]) -> None:
    """Each constant in an insert of its own."""
    for constant in constants:
        assert keys.insert([constant])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the constants")
    count = 100_000 if parser.parse_args().quick else 1_000_000
    random = Random(7)
    constants = [b"%s/%d" % (random.randbytes(3).hex().encode(), i) for i in range(count)]
    sample = random.sample(constants, 50_000)
    others = [c + b"x" for c in sample]
    keys = StringKeys()
    print(f"{count:,} constants")
    start = time.perf_counter()
    assert keys.insert(constants)
    report("insert all at once", time.perf_counter() - start, count)
    report("look up a constant", timed(lambda: look_up(keys, sample)), len(sample))
    report("look up another string", timed(lambda: look_up(keys, others)), len(others))
    report("insert one (1,000 times)", timed(lambda: one_by_one(keys, others[:1000]), runs=1), 1000)
    report("relabel", timed(lambda: keys.relabelled()), count)
    new, bounds = keys.relabelled(), keys.items()[1]
    report("translate a bound on each", timed(lambda: keys.translated(bounds, new, 1)), count)
    assert np.array_equal(keys.translated(bounds, new, 1), new.items()[1])


if __name__ == "__main__":
    main()
