"""Networks of brokers (`earmark.overlay`): what do policies of routing cost, beside what two papers say about them?

    python benchmarks/overlay.py [--quick | --share S] [--docs FOLDER]     by policy, with verdicts: half an hour
    python benchmarks/overlay.py --scale [--quick]                         100 brokers × 100k subscriptions, 1,000 × 10k

Everything is simulated (docs/overlay-simulator.md) and judged: a run whose deliveries are not exactly those of one
central scan fails the program. Counts depend on the seed alone, never on the machine; seconds are the processor's.

    by policy    the workloads of mics.txt and shen-covering.txt, uniform and Zipfian, on several topologies
    figure 7     MICS: subscriptions forwarded, without covering, with covering, with subsumption, by dimensions;
                 to a neighbour, as in the paper, and over a network of 11 brokers
    growth       up to 100,000 subscriptions; the largest of flooding and covering on all topologies
    scale        how long the largest networks take

`--docs FOLDER` writes overlay-results.md, overlay-results.json and pictures there; with `--from FILE` from such a
.json, without running anything. With `--keep FILE` a call that was interrupted goes on where it was.

The program fails where deliveries are not exact, where a network that floods sends no publication over a link (then
"exact" says nothing about links), or where the largest networks take too long. A claim of a paper that does not hold is
a result, not a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from textwrap import wrap
from typing import Any

from earmark.overlay.simulation import VARIANTS, Faults, content_of, plan_of, simulate, topology_of

TOPOLOGIES = ("figure-1", "line:12", "star:16")
WORKLOADS = ("mics-uniform", "mics-zipf", "shen-uniform", "shen-zipf")
SELDOM = 15
"""Publications of mics, for each of shen: so few of them match that others would test nothing between brokers."""
QUICK_POLICIES = ("flood", "covering", "subsumption", "merging-gap")
DIMENSIONS = (2, 3, 4)
FIGURE_7 = ("flood", "covering", "subsumption")
GROWTH = ("flood", "covering", "subsumption", "merging")
GROWTH_PUBLICATIONS = 500
LIMITS = {
    "growth": (
        "With 100,000 subscriptions, `flood` and `covering` are run on all networks, `subsumption` and `merging` on "
        "the first. Where subscriptions overlap much (shen), the space of ranges is full and control messages hardly "
        "grow; where they overlap little (mics), tables have tens of ranges per subscription. "
        "`subsumption-indexing` and variants of covering and merging take no part."
    ),
}
"""Why not every policy is run with as many subscriptions, by part."""
SCALE = (("tree:100", 100_000, 10_000, 1_000), ("random:1000", 10_000, 1_000, 10_000))
"""Network, subscriptions, publications, and requests that come at the same instant."""
SCALE_ATTRIBUTES = 3
MOST_SECONDS = 300.0
MOST_FLOODED = 2_000_000
"""Control messages up to which flooding is run beside covering; more of them take too much memory and time."""


@dataclass(frozen=True)
class Sizes:
    """How much is run."""

    by_policy: int
    """Subscriptions."""
    figure_7: Mapping[str, int]
    """Subscriptions, by network."""
    growth: tuple[int, ...]
    """Subscriptions; the last of them on all networks."""
    publications: int = 200
    """Of shen; SELDOM times as many of mics. In growth GROWTH_PUBLICATIONS."""


QUICK = Sizes(80, {"line:2": 3_000, "figure-1": 200}, (300, 1_000), 40)
FULL = Sizes(1_000, {"line:2": 5_000, "figure-1": 2_000}, (1_000, 10_000, 100_000))
PERCENT = 75.0
"""MICS, section 1: covering and merging "can result in up to 75 % reduction in subscription traffic"."""
CONSIDERABLY = 25.0
"""Percent. MICS, Figure 7 has subsumption "considerably" below covering: with the fewest dimensions by so much here."""
UNSUBSCRIBES = 0.05
"""p of Shen's heavy load."""


@dataclass(frozen=True)
class Cell:
    """One run, in figures."""

    part: str
    workload: str
    attributes: int
    topology: str
    brokers: int
    subscriptions: int
    publications: int
    policy: str
    control: int
    control_bytes: int
    entries: int
    largest: int
    hops: int
    useless: int
    burst: int
    in_force: float
    seconds: float
    exact: bool


@dataclass(frozen=True)
class Spec:
    """One run that is to be done.

    With `jitter`, in seconds, links have different delays, so that requests of different instants seldom meet in a
    broker; without it, what comes over paths of one length arrives at once. `at_once` requests come at one instant.
    """

    part: str
    workload: str
    topology: str
    policy: str
    size: tuple[int, int]
    attributes: int = 3
    jitter: float = 0.004
    withdraw: float = 0.0
    at_once: int | None = 1

    @property
    def cost(self) -> float:
        """About how long it takes, beside others: long ones are begun first."""
        weight = 1.0 if self.policy == "flood" else 4.0
        return weight * self.size[0] * len(topology_of(self.topology).edges) * (1.0 if self.jitter else 0.1)


def run(spec: Spec) -> Cell:
    """Simulate one network."""
    unsubscribes = UNSUBSCRIBES if spec.workload.startswith("shen") else 0.0
    content = content_of(spec.workload, *spec.size, attributes=spec.attributes, unsubscribes=unsubscribes)
    plan = plan_of(content, topology_of(spec.topology), withdraw=spec.withdraw, at_once=spec.at_once)
    begun = time.process_time()
    report = simulate(plan, spec.policy, faults=Faults(jitter=spec.jitter), progress=False)
    return Cell(
        spec.part,
        spec.workload,
        spec.attributes,
        spec.topology,
        report.brokers,
        *spec.size,
        spec.policy,
        report.control,
        report.control_bytes,
        report.entries,
        report.subscribed.largest,
        report.hops,
        report.false_positives,
        int(report.bursts.most),
        report.in_force.median,
        round(time.process_time() - begun, 2),
        report.verdict.is_exact,
    )


def show(cell: Cell, done: str = "") -> None:
    """Print the figures of a run."""
    exact = "" if cell.exact else "  NOT EXACT"
    print(
        f" {done} {cell.part:<9} {cell.workload:<13} {cell.attributes}d  {cell.topology:<12} {cell.subscriptions:>7,}  "
        f"{cell.policy:<21} control {cell.control:>9,} ({cell.control_bytes / 1e6:8.2f} MB)  entries {cell.entries:>9,}"
        f"  hops {cell.hops:>7,} ({cell.useless:,} of no use)  {cell.seconds:6.1f} s{exact}",
        flush=True,
    )


def run_all(specs: Sequence[Spec], processes: int, keep: Path | None = None) -> list[Cell]:
    """Do all runs, in this many processes, those that take longest first; returns them in the order given.

    What is done is added to a file to keep, and what is there already is not done again.
    """
    cells = {} if keep is None else kept(keep)

    def take(spec: Spec, cell: Cell) -> None:
        cells[spec] = cell
        show(cell, f"{sum(spec in cells for spec in specs):>3} of {len(specs)} ")
        if keep is not None:
            with keep.open("a", encoding="utf-8") as file:
                file.write(json.dumps([asdict(spec), asdict(cell)]) + "\n")

    left = sorted((spec for spec in specs if spec not in cells), key=lambda spec: -spec.cost)
    if processes == 1:
        for spec in left:
            take(spec, run(spec))
    else:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            waiting = {pool.submit(run, spec): spec for spec in left}
            for future in as_completed(waiting):
                take(waiting[future], future.result())
    return [cells[spec] for spec in specs]


def kept(file: Path) -> dict[Spec, Cell]:
    """Return what an earlier call has done."""
    cells = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        spec, cell = json.loads(line)
        cells[Spec(**{**spec, "size": tuple(spec["size"])})] = Cell(**cell)
    return cells


# --- what is run -----------------------------------------------------------------------------------------------------


def published(workload: str, publications: int) -> int:
    """How many publications there are of a workload."""
    return publications * (SELDOM if workload.startswith("mics") else 1)


def by_policy(sizes: Sizes, policies: Sequence[str]) -> list[Spec]:
    """Traffic and tables by policy, workload and topology; requests come one at a time."""
    return [
        Spec("by policy", workload, topology, policy, (sizes.by_policy, events), withdraw=0.1)
        for workload in WORKLOADS
        for events in [published(workload, sizes.publications)]
        for topology in TOPOLOGIES
        for policy in policies
    ]


def figure_7(sizes: Sizes) -> list[Spec]:
    """Subscriptions forwarded by dimensions, to a neighbour and over a network."""
    events = published("mics-zipf", sizes.publications)
    return [
        Spec("figure 7", "mics-zipf", topology, policy, (count, events), attributes)
        for topology, count in sizes.figure_7.items()
        for attributes in DIMENSIONS
        for policy in FIGURE_7
    ]


def growth(sizes: Sizes) -> list[Spec]:
    """Policies as subscriptions become many; many requests come at once."""
    counts = sizes.growth
    return [
        Spec("growth", workload, topology, policy, (count, GROWTH_PUBLICATIONS), jitter=0.0, at_once=None)
        for workload in WORKLOADS
        for count in counts
        for topology in (TOPOLOGIES if count == counts[-1] else TOPOLOGIES[:1])
        for policy in (GROWTH if topology == TOPOLOGIES[0] else GROWTH[:2])
    ]


def scale(quick: bool) -> list[Spec]:
    """The largest networks, under covering, and under flooding as far as that is feasible."""
    specs = []
    for topology, subscriptions, publications, at_once in SCALE:
        size = (subscriptions // 100, publications // 100) if quick else (subscriptions, publications)
        links = len(topology_of(topology).edges)
        for policy in ("covering", "flood"):
            counts = size
            while policy == "flood" and counts[0] * links > MOST_FLOODED:
                counts = (counts[0] // 10, counts[1] // 10)
            if counts != size:
                print(f"  {topology}: flooding {size[0]:,} would take {size[0] * links:,} control messages")
            specs.append(
                Spec("scale", "shen-uniform", topology, policy, counts, SCALE_ATTRIBUTES, jitter=0.0, at_once=at_once)
            )
    return specs


# --- what the papers say ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, and whether it holds here."""

    paper: str
    says: str
    holds: bool
    measured: str


def judged(cells: Sequence[Cell]) -> list[Claim]:
    """Compare all figures with what the papers say."""
    claims: list[Claim] = []
    for topology in dict.fromkeys(cell.topology for cell in cells if cell.part == "figure 7"):
        claims += _figure_7([c for c in cells if c.part == "figure 7" and c.topology == topology], topology)
    main = [cell for cell in cells if cell.part in ("by policy", "growth")]
    return claims + _reduction(main) + _shen(main)


def _figure_7(cells: Sequence[Cell], topology: str) -> list[Claim]:
    dimensions = sorted({cell.attributes for cell in cells})
    where, paper = "to a neighbour" if topology == "line:2" else f"over {topology}", "MICS, Figure 7"

    def sent(figure: str, policy: str) -> list[int]:
        found = {(cell.policy, cell.attributes): getattr(cell, figure) for cell in cells}
        return [found[policy, d] for d in dimensions]

    def each(texts: Iterable[str]) -> str:
        return "; ".join(f"{d}d {text}" for d, text in zip(dimensions, texts, strict=True))

    plain, covered, subsumed = (sent("control", policy) for policy in FIGURE_7)
    sizes = [sent("control_bytes", policy) for policy in FIGURE_7]
    gain = [100 * (1 - s / max(c, 1)) for c, s in zip(covered, subsumed, strict=True)]
    saved = [100 * (1 - c / max(f, 1)) for f, c in zip(plain, covered, strict=True)]
    return [
        Claim(
            paper,
            f"{where}: without covering, traffic is the same whatever the dimensions",
            len(set(plain)) == 1,
            each(f"{count:,}" for count in plain),
        ),
        Claim(
            paper,
            f"{where}: covering saves some messages (none → covering)",
            min(saved) > 0,
            each(f"{f:,} → {c:,}" for f, c in zip(plain, covered, strict=True)),
        ),
        Claim(
            paper,
            f"{where}: subsumption saves considerably more, at least {CONSIDERABLY:.0f} % of what covering sends in "
            f"{dimensions[0]} dimensions (covering → subsumption)",
            gain[0] >= CONSIDERABLY,
            each(f"{c:,} → {s:,}, {g:.1f} %" for c, s, g in zip(covered, subsumed, gain, strict=True)),
        ),
        Claim(
            paper,
            f"{where}: the fewer dimensions, the more subsumption saves beyond covering",
            all(a >= b for a, b in pairwise(gain)),
            each(f"{share:.1f} %" for share in gain),
        ),
        Claim(
            f"{paper}, in bytes instead of messages",
            f"{where}: subsumption saves beyond covering (none → covering → subsumption)",
            all(s < c for _, c, s in zip(*sizes, strict=True)),
            each(" → ".join(f"{size / 1e6:.2f}" for size in some) + " MB" for some in zip(*sizes, strict=True)),
        ),
    ]


def _pairs(cells: Sequence[Cell], policies: Callable[[str], bool]) -> list[tuple[Cell, Cell]]:
    """Pairs of a run under a policy, and the same under flooding."""

    def key(cell: Cell) -> tuple[object, ...]:
        return cell.part, cell.workload, cell.topology, cell.subscriptions

    flood = {key(cell): cell for cell in cells if cell.policy == "flood"}
    return [(c, flood[key(c)]) for c in cells if policies(c.policy) and c.policy != "flood"]


def _reduction(cells: Sequence[Cell]) -> list[Claim]:
    claims = []
    for kind in ("covering", "merging"):
        pairs = _pairs(cells, lambda name, kind=kind: name.startswith(kind))  # type: ignore[misc]
        if not pairs:
            continue
        best, flood = max(pairs, key=lambda pair: 1 - pair[0].control / pair[1].control)
        share = 100 * (1 - best.control / flood.control)
        where = f"{best.policy}, {best.subscriptions:,} subscriptions of {best.workload} on {best.topology}"
        where += f": {flood.control:,} → {best.control:,}"
        size = f"{100 * (1 - best.control_bytes / flood.control_bytes):.0f} % of bytes"
        claims.append(
            Claim(
                "MICS, section 1",
                f"{kind} saves up to {PERCENT:.0f} % of subscription traffic (there of covering and merging together)",
                share >= PERCENT,
                f"at most {share:.0f} % of control messages, {size} ({where})",
            )
        )
    return claims


def _shen(cells: Sequence[Cell]) -> list[Claim]:
    pairs = _pairs([c for c in cells if c.workload.startswith("shen")], lambda name: name == "covering")
    if not pairs:
        return []
    claims = []
    for what, figure in (("control messages", "control"), ("table entries", "entries")):
        saved = [100 * (1 - getattr(one, figure) / getattr(flood, figure)) for one, flood in pairs]
        claims.append(
            Claim(
                "Shen et al., section I",
                f"covering: fewer {what} than flooding",
                min(saved) > 0,
                f"{min(saved):.0f} to {max(saved):.0f} % fewer in {len(pairs)} networks",
            )
        )
    return claims


# --- what is written -------------------------------------------------------------------------------------------------


def shown(claims: Sequence[Claim]) -> str:
    """Return the claims as lines."""
    return "\n".join(f"  {'holds' if c.holds else 'FAILS'}  {c.paper}: {c.says}\n         {c.measured}" for c in claims)


PICTURES = {
    "by policy": ("overlay-by-policy",),
    "figure 7": ("overlay-figure-7",),
    "growth": ("overlay-growth-control", "overlay-growth-entries"),
}


def page(cells: Sequence[Cell], claims: Sequence[Claim], machine: str, command: str) -> str:
    """Return the page of results."""
    lines = [
        "# What policies of routing cost",
        "",
        f"Written by `{command}`; do not edit. Counts depend on the seed alone. Seconds are processor time of one run,",
        f"with everything that judges it, on {machine}. {_delivered(cells)}",
        "[overlay-simulator.md](overlay-simulator.md) explains the figures, and the policies are in",
        "`earmark simulate --help`.",
        "",
        "## What the papers say",
        "",
        "| paper | says | here | measured |",
        "|---|---|---|---|",
    ]
    lines += [f"| {c.paper} | {c.says} | {'holds' if c.holds else '**fails**'} | {c.measured} |" for c in claims]
    titles = {
        "by policy": "By policy: control messages, their size, and table entries after all subscriptions",
        "figure 7": "MICS, Figure 7: control messages by dimensions",
        "growth": "As subscriptions become many",
        "scale": "The largest networks",
    }
    for part, title in titles.items():
        own = [cell for cell in cells if cell.part == part]
        if own:
            lines += ["", f"## {title}", ""]
            for name in PICTURES.get(part, ()):
                lines += [f"![{part}]({name}.svg)", ""]
            if part in LIMITS:
                lines += [*wrap(LIMITS[part], 120, break_on_hyphens=False), ""]
            lines += _table(own)
    return "\n".join(lines) + "\n"


def _delivered(cells: Sequence[Cell]) -> str:
    exact = sum(cell.exact for cell in cells)
    runs = f"All {exact}" if exact == len(cells) else f"{exact} of {len(cells)}"
    return f"{runs} runs delivered exactly what one central scan says."


def _table(cells: Sequence[Cell]) -> list[str]:
    lines = [
        "| workload | network | subscriptions | policy | control | MB | entries | largest table | hops | of no use "
        "| burst | s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for c in cells:
        lines.append(
            f"| {c.workload}, {c.attributes}d | {c.topology} | {c.subscriptions:,} | {c.policy} | {c.control:,} | "
            f"{c.control_bytes / 1e6:.2f} | {c.entries:,} | {c.largest:,} | {c.hops:,} | {c.useless:,} | {c.burst:,} | "
            f"{c.seconds:.1f} |"
        )
    return lines


def drawn(cells: Sequence[Cell], folder: Path) -> None:
    """Draw traffic and tables by policy, and Figure 7."""
    from earmark.overlay.simulation.plots import draw_bars, draw_lines

    main = [cell for cell in cells if cell.part == "by policy"]
    policies = [*dict.fromkeys(cell.policy for cell in main)]
    panels: dict[str, list[float]] = {}
    for workload in dict.fromkeys(cell.workload for cell in main):
        for what, figure in (("control bytes", "control_bytes"), ("entries", "entries")):
            values = [
                sum(getattr(c, figure) for c in main if (c.workload, c.policy) == (workload, p)) for p in policies
            ]
            panels[f"{workload}: {what}"] = values
    title = f"Control traffic in bytes, and table entries, summed over {', '.join(TOPOLOGIES)}"
    draw_bars(policies, panels, title, folder / "overlay-by-policy", formats=("svg",), columns=4)
    series = {}
    for topology in dict.fromkeys(cell.topology for cell in cells if cell.part == "figure 7"):
        own = [cell for cell in cells if cell.part == "figure 7" and cell.topology == topology]
        series[topology] = {
            policy: [(cell.attributes, cell.control) for cell in own if cell.policy == policy] for policy in FIGURE_7
        }
    draw_lines(series, "dimensions", "control messages", "Subscriptions forwarded", folder / "overlay-figure-7.svg")
    grown = [cell for cell in cells if cell.part == "growth" and cell.topology == TOPOLOGIES[0]]
    for figure, what in (("control", "control messages"), ("entries", "table entries")):
        series = {
            workload: {
                policy: [
                    (cell.subscriptions, getattr(cell, figure))
                    for cell in grown
                    if (cell.workload, cell.policy) == (workload, policy)
                ]
                for policy in GROWTH
            }
            for workload in dict.fromkeys(cell.workload for cell in grown)
        }
        file = folder / f"overlay-growth-{figure}.svg"
        draw_lines(series, "subscriptions", what, f"On {TOPOLOGIES[0]}", file, is_log=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small networks, in under two minutes")
    parser.add_argument("--share", type=float, default=1.0, metavar="S", help="of the sizes of a full run, such as 0.1")
    parser.add_argument("--scale", action="store_true", help="only the largest networks, one after the other")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="runs at the same time")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write each run here, and go on after the last one")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="take the figures of such a .json")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="write a page, its data and pictures here")
    options = parser.parse_args(arguments)
    begun = time.perf_counter()
    if not 0 < options.share <= 1:
        parser.error(f"expected a share of the sizes above 0 and at most 1, got {options.share}")
    record: dict[str, Any] = {}
    if options.source:
        record = json.loads(options.source.read_text(encoding="utf-8"))
        cells = [Cell(**cell) for cell in record["cells"]]
    elif options.scale:
        cells = _scaled(options.quick)
    else:
        sizes = QUICK if options.quick else _shared(FULL, options.share)
        policies = QUICK_POLICIES if options.quick else VARIANTS
        specs = [*figure_7(sizes), *by_policy(sizes, policies), *growth(sizes)]
        cells = run_all(specs, max(1, options.processes), options.keep)
    claims = judged(cells)
    print(shown(claims))
    problems = [*_problems(cells)]
    for problem in problems:
        print(f"  FAILS  {problem}")
    if options.json or options.docs:
        _write(options, record, cells, claims)
    held = f"{sum(claim.holds for claim in claims)} of {len(claims)} claims hold"
    print(f"{time.perf_counter() - begun:.0f} s; {held}; {'all deliveries are exact' if not problems else 'FAILED'}")
    return 1 if problems else 0


def _problems(cells: Sequence[Cell]) -> Iterable[str]:
    for cell in cells:
        where = f"{cell.part}: {cell.policy}, {cell.subscriptions:,} of {cell.workload} on {cell.topology}"
        if not cell.exact:
            yield f"{where}: deliveries are not those of one scan"
        if cell.policy == "flood" and not cell.hops:
            yield f"{where}: no publication went over a link"
        if cell.part == "scale" and cell.policy == "covering" and cell.seconds > MOST_SECONDS:
            yield f"{where}: took {cell.seconds:.0f} s, more than {MOST_SECONDS:.0f}"


def _scaled(quick: bool) -> list[Cell]:
    """Run the largest networks one after the other in this process, so that their seconds can be compared."""
    run(Spec("warming", "shen-zipf", "line:3", "covering", (20, 10), withdraw=0.5))
    cells = []
    for spec in scale(quick):
        cells.append(run(spec))
        show(cells[-1])
    return cells


def _shared(sizes: Sizes, share: float) -> Sizes:
    """Return sizes times a share."""

    def part(count: int) -> int:
        return max(1, round(count * share))

    networks = {name: part(count) for name, count in sizes.figure_7.items()}
    return Sizes(part(sizes.by_policy), networks, tuple(map(part, sizes.growth)), part(sizes.publications))


def _write(options: argparse.Namespace, record: dict[str, Any], cells: list[Cell], claims: list[Claim]) -> None:
    """Write a record and a page of figures; `record` is the one they were read from, if they were."""
    from earmark.report.protocol import machine

    command = "python benchmarks/overlay.py" + " --quick" * options.quick
    command += f" --share {options.share:g}" * (options.share != 1) + " --docs docs"
    facts, command = record.get("machine") or machine(), record.get("command") or command
    record = {
        "machine": facts,
        "command": command,
        "cells": [asdict(c) for c in cells],
        "claims": [asdict(c) for c in claims],
    }
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    if options.json:
        options.json.write_text(text, encoding="utf-8")
    if options.docs:
        (options.docs / "overlay-results.json").write_text(text, encoding="utf-8")
        words = f"{facts.get('processor') or 'a machine'}, {facts.get('cores', '?')} cores, shared with other work"
        (options.docs / "overlay-results.md").write_text(page(cells, claims, words, command), encoding="utf-8")
        drawn(cells, options.docs)


if __name__ == "__main__":
    sys.exit(main())
