"""Engines against each other on the standard workloads: the same data, the same run, every answer compared.

    python benchmarks/run.py                                    all workloads, sizes and engines: about an hour
    python benchmarks/run.py --quick                            w1 and w2 at 10k, in a minute
    python benchmarks/run.py --workloads w2 --sizes 100k --engines scan,sqlite,duckdb --json FILE
    python benchmarks/run.py --show FILE --markdown docs/benchmarks.md

Figures are µs per event: the median of the repeats, least and greatest beside it. An engine whose answers are not the
reference's is shown as WRONG and has no figure. What cannot be measured is shown as skipped, with the reason. Memory
is what a fresh process took on top of the workload, at its peak. With `--rounds 3` the engines take turns three times
and the figures are pooled, so that the spread also shows how the machine drifted. Exit code 1 when an engine was wrong
or failed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import engines
from earmark.errors import EarmarkError
from earmark.report.protocol import QUICK_REPEATS, REPEATS, machine
from earmark.workload.standard import EVENTS, SUBSCRIPTIONS, WORKLOADS
from fresh import measure_fresh, write_data
from measure import reference
from results import Figure, Result, pooled, read
from tables import filled, groups, machine_line, markdown, overview, size_name, terminal


def listed(text: str) -> list[str]:
    """`a,b` -> the parts."""
    return [part.strip() for part in text.split(",") if part.strip()]


def sizes(text: str) -> list[int]:
    """`10k,1m` -> numbers of subscriptions, ascending."""
    found = set()
    for part in listed(text):
        factor = {"k": 1_000, "m": 1_000_000}.get(part[-1].lower(), 1)
        digits = part if factor == 1 else part[:-1]
        if not digits.isdigit() or not 0 < int(digits) * factor <= SUBSCRIPTIONS:
            raise argparse.ArgumentTypeError(f"{part!r} is not a size from 1 to 1m, such as 10k")
        found.add(int(digits) * factor)
    return sorted(found)


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=listed, help=f"default: {','.join(WORKLOADS)}")
    parser.add_argument("--sizes", type=sizes, help="default: 10k,100k,1m")
    parser.add_argument("--engines", type=listed, help=f"default: {','.join(engines.names())}")
    parser.add_argument("--baseline", default=engines.BASELINE, help="the engine that ratios are against (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each engine that has them (%(default)s)")
    parser.add_argument("--events", type=int, default=EVENTS, help="the first events of each workload (%(default)s)")
    parser.add_argument("--repeats", type=int, help=f"runs that count (default: {REPEATS})")
    parser.add_argument("--rounds", type=int, default=1, help="times the engines take turns (%(default)s)")
    parser.add_argument("--time-limit", type=float, metavar="S", help="seconds an engine, workload and size (120)")
    parser.add_argument("--quick", action="store_true", help="w1 and w2 at 10k, three repeats, 20 s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: show an earlier result")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="put the tables into the marked place of a page")
    options = parser.parse_args(given)
    options.workloads = options.workloads or (["w1", "w2"] if options.quick else list(WORKLOADS))
    options.sizes = options.sizes or ([10_000] if options.quick else [10_000, 100_000, 1_000_000])
    options.engines = options.engines or engines.names()
    options.repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    options.time_limit = options.time_limit or (20.0 if options.quick else 120.0)
    unknown = [name for name in options.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"there is no workload called {unknown[0]!r}; there are {', '.join(WORKLOADS)}")
    if min(options.events, options.repeats, options.rounds, options.threads) < 1 or options.time_limit <= 0:
        parser.error("events, repeats, rounds, threads and the time limit must be positive")
    try:
        for name in options.engines:
            engines.make(name)
        if options.markdown:
            filled(options.markdown.read_text("utf-8"), "")
    except (EarmarkError, OSError, ValueError) as problem:
        parser.error(str(problem))
    if options.json and not options.json.parent.is_dir():
        parser.error(f"there is no folder {options.json.parent}")
    return options


def measured(options: argparse.Namespace) -> Iterator[Figure]:
    """Every figure, in the order of workloads, sizes, engines; says on stderr what it is at."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        for name in options.workloads:
            say(f"{name}: drawing {size_name(options.sizes[-1])} subscriptions")
            whole = WORKLOADS[name](subscriptions=options.sizes[-1])
            few = {column: getattr(whole, column)[: options.events] for column in ("event_attr", "event_value")}
            whole = whole._replace(**few)
            for size in options.sizes:
                workload = whole.head(size)
                say(f"{name} {size_name(size)}: reference answers")
                write_data(data, workload, reference(workload))
                found = []
                for turn in range(options.rounds):
                    for engine in options.engines:
                        say(f"{name} {size_name(size)}: {engine}" + (f", round {turn + 1}" if turn else ""))
                        found += measure_fresh(
                            engine, name, size, data, options.repeats, options.time_limit, options.threads
                        )
                yield from pooled(found)


def say(text: str) -> None:
    """Progress, kept out of what is piped or stored."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def show(workload: str, size: int, figures: list[Figure], baseline: str) -> None:
    """The table of one workload and size."""
    print(f"\n{workload}, {size_name(size)} subscriptions; baseline {baseline}")
    print(terminal(figures, baseline), flush=True)


def measure_all(options: argparse.Namespace) -> Result:
    """Measure, and show each workload and size when it is complete."""
    facts = machine()
    print(machine_line(facts))
    figures = []
    for (workload, size), group in groups(measured(options)):
        show(workload, size, group, options.baseline)
        figures += group
    kept = ("workloads", "sizes", "engines", "baseline", "threads", "events", "repeats", "rounds", "time_limit")
    return Result("run", {name: getattr(options, name) for name in kept}, figures, facts)


def main(given: list[str] | None = None) -> int:
    options = arguments(given)
    try:
        result = read(options.show) if options.show else measure_all(options)
        if options.show:
            print(machine_line(result.machine))
            for (workload, size), group in groups(result.figures):
                show(workload, size, group, result.settings["baseline"])
        print("\n" + overview(result.figures))
        if options.json:
            result.write(options.json)
        if options.markdown:
            options.markdown.write_text(filled(options.markdown.read_text("utf-8"), markdown(result)), "utf-8")
    except (EarmarkError, OSError) as problem:
        print(f"run.py: {problem}", file=sys.stderr)
        return 2
    bad = [one for one in result.figures if one.status in ("wrong", "failed")]
    told = ", ".join(sorted({f"{one.engine} on {one.workload}" for one in bad}))
    print(f"\nWRONG OR FAILED: {told}" if bad else "\nevery answer that was measured is the reference's")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
