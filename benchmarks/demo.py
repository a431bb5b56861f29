"""How long does a first use take, before anything is compiled? `earmark demo`, and a first answer of `Matcher()`.

    python benchmarks/demo.py [--quick] [--json FILE]

Each runs in a process of its own with an empty cache of kernels, by the clock on the wall.

demo      all of `earmark demo`, from the start of its process to the end. Bar: 40 s
answer    10,000 subscriptions as text into a `Matcher()`, then one `match`: seconds from the first call to the answer.
          Bar: 5 s
planned   seconds until the helper has compiled what did not race, and the book has the index that was planned then;
          and what a `match` takes before and after

Exit code 1 when a bar is missed or an answer is wrong. `--quick` measures the first answer alone, and judges no bar. It
needs two cores without other work: a helper compiles on the second one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from contenders import Bars
from results import Figure, Result

SIZE, LONGEST = 10_000, 600.0
DEMO_BAR, ANSWER_BAR = 40.0, 5.0
FIRST = """
import json, sys, time
from earmark import Matcher

def asked():
    return m.match({"a": 500, "b": 9})

def quickest():
    took = []
    for _ in range(200):
        begun = time.perf_counter()
        asked()
        took.append(time.perf_counter() - begun)
    return 1e6 * sorted(took)[100]

size, longest = int(sys.argv[1]), float(sys.argv[2])
rows = [(i, f"a BETWEEN {i} AND {i + 9} AND b > {i % 7}") for i in range(size)]
begun = time.perf_counter()
m = Matcher()
m.add_many(rows, progress=False)
added = time.perf_counter() - begun
right = asked() == list(range(491, 501))
found = {"added": added, "answer": time.perf_counter() - begun, "first": m.plan()[0].index, "before": quickest()}
while longest and m.plan()[0].missing and time.perf_counter() < begun + longest:
    time.sleep(0.1)
found |= {"planned": time.perf_counter() - begun, "then": m.plan()[0].index, "missing": m.plan()[0].missing}
right &= asked() == list(range(491, 501))
print(json.dumps(found | {"after": quickest(), "right": right}))
"""


def alone(command: list[str]) -> tuple[float, str]:
    """The seconds that a process takes that finds an empty cache, and what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name != "EARMARK_NO_WARMING"}
        environment |= {"EARMARK_CACHE_DIR": folder, "EARMARK_QUIET": "1"}
        begun = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        took = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{command} failed: {done.stderr[-2000:]}")
    return took, done.stdout


def first_answer(longest: float) -> dict[str, Any]:
    """What a first user of a Matcher waits for."""
    _, printed = alone([sys.executable, "-c", FIRST, str(SIZE), str(longest)])
    found: dict[str, Any] = json.loads(printed)
    return found


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the first answer alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(given)
    bars, figures = Bars(not options.quick), []
    found = first_answer(0.0 if options.quick else LONGEST)
    print(f"a first answer, {SIZE:,} subscriptions: by '{found['first']}', added in {found['added']:.1f} s")
    bars.at_most("first answer", found["answer"], ANSWER_BAR, "s")
    figures.append(Figure("first use", SIZE, "Matcher()", "first answer", "s", [found["answer"]]))
    if not options.quick:
        print(f"  planned again after {found['planned']:.0f} s: '{found['then']}'", end="; ")
        print(f"a match takes {found['before']:.0f} µs before, {found['after']:.0f} µs after")
        if found["missing"]:
            bars.missed.append("the planned index did not arrive")
        figures.append(Figure("first use", SIZE, "Matcher()", "planned again", "s", [found["planned"]]))
        took, _ = alone([sys.executable, "-m", "earmark", "demo"])
        bars.at_most("earmark demo, from an empty cache", took, DEMO_BAR, "s")
        figures.append(Figure("first use", 200_000, "earmark demo", "demo", "s", [took]))
    if options.json:
        Result("demo", {"size": SIZE}, figures).write(options.json)
    if not found["right"]:
        print("WRONG: the first answer")
    return int(not found["right"] or bool(bars.missed))


if __name__ == "__main__":
    sys.exit(main())
