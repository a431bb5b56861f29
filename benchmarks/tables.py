"""Figures as people read them: a table for a terminal, and the one of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from results import PER_EVENT, Figure, Result

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def size_name(subscriptions: int) -> str:
    """10000 -> 10k."""
    for factor, letter in ((1_000_000, "M"), (1_000, "k")):
        if subscriptions % factor == 0:
            return f"{subscriptions // factor}{letter}"
    return str(subscriptions)


def number(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def with_spread(figure: Figure) -> str:
    """median (least to greatest)."""
    middle, low, high = figure.summary
    if len(figure.values) == 1:
        return f"{number(middle)} (one run)"
    return f"{number(middle)} ({number(low)} to {number(high)})"


def against(base: float, value: float) -> str:
    """How often faster or slower than the baseline."""
    return f"{number(base / value)} x faster" if value <= base else f"{number(value / base)} x slower"


def baseline_of(figures: Sequence[Figure], engine: str) -> Figure | None:
    """The fastest way of searching of the engine that ratios are taken against."""
    own = [one for one in figures if one.engine == engine and one.unit == PER_EVENT and one.status == "ok"]
    return min(own, key=lambda one: one.summary.median, default=None)


def groups(figures: Iterable[Figure]) -> Iterator[tuple[tuple[str, int], list[Figure]]]:
    """Figures of one workload and size at a time."""
    for key, group in groupby(figures, key=lambda one: (one.workload, one.subscriptions)):
        yield key, list(group)


def rows(figures: Sequence[Figure], baseline: str) -> list[list[str]]:
    """Of one workload and size: engine, µs per event, against the baseline, build, memory, note."""
    base = baseline_of(figures, baseline)
    out = []
    for engine, own in groupby(figures, key=lambda one: one.engine):
        by_what = {one.what: one for one in own}
        build, memory = (_plain(by_what.get(what)) for what in ("build", "memory"))
        searches = [one for one in by_what.values() if one.unit == PER_EVENT or one.status != "ok"]
        for one in searches:
            name = engine if one.what in ("build", "search") else f"{engine}, {one.what}"
            if one.status == "ok":
                ratio = "baseline" if one is base else against(base.summary.median, one.summary.median) if base else ""
                out.append([name, with_spread(one), ratio, build, memory, one.note])
            else:
                told = "WRONG" if one.status == "wrong" else one.status
                out.append([name, told, "", build, memory, one.note])
    return out


HEADERS = ["engine", "µs per event", "against the baseline", "build", "memory", ""]


def terminal(figures: Sequence[Figure], baseline: str) -> str:
    """One workload and size, aligned."""
    body = rows(figures, baseline)
    used = [i for i in range(len(HEADERS)) if any(line[i] for line in body)]
    lines = [[line[i] for i in used] for line in [HEADERS, *body]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = {i for i, header in enumerate(lines[0]) if header in ("engine", "")}
    out = []
    for line in lines:
        cells = [
            cell.ljust(width) if i in texts else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        out.append(("  " + "   ".join(cells)).rstrip())
    return "\n".join(out)


def overview(figures: Sequence[Figure]) -> str:
    """Engines down, workloads across, medians of the sizes in each cell: a table in Markdown."""
    workloads = list(dict.fromkeys(one.workload for one in figures))
    sizes = sorted({one.subscriptions for one in figures})
    found: dict[tuple[str, str], dict[int, str]] = {}
    engines: dict[str, list[str]] = {}
    for one in figures:
        searched = one.unit == PER_EVENT
        names = engines.setdefault(one.engine, [])
        if searched:
            name = f"{one.engine}, {one.what}"
            if name not in names:
                names.append(name)
            told = number(one.summary.median) if one.status == "ok" else "WRONG" if one.status == "wrong" else "–"
            found.setdefault((name, one.workload), {})[one.subscriptions] = told
    order = " / ".join(size_name(size) for size in sizes)
    lines = [f"| µs per event at {order} | {' | '.join(workloads)} |", "|---" * (len(workloads) + 1) + "|"]
    for engine, names in engines.items():
        for name in names or [engine]:
            cells = []
            for workload in workloads:
                cell = found.get((name, workload), {})
                cells.append(" / ".join(cell.get(size, "–") for size in sizes) if cell else "–")
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def markdown(result: Result) -> str:
    """Everything a reader of the documentation needs: the machine, the overview, and each table in full."""
    baseline = result.settings["baseline"]
    parts = [machine_line(result.machine), overview(result.figures)]
    for (workload, subscriptions), group in groups(result.figures):
        head = f"**{workload}, {size_name(subscriptions)} subscriptions**"
        table = ["| " + " | ".join(cells) + " |" for cells in [HEADERS, *rows(group, baseline)]]
        parts.append("\n".join([head, "", table[0], "|---" * len(HEADERS) + "|", *table[1:]]))
    return "\n\n".join(parts)


def filled(page: str, text: str) -> str:
    """The page with `text` in its marked place; ValueError when it has none."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no place marked {BEGIN} ... {END}")
    return f"{head}{begin}\n{text}\n{end}{tail}"


def machine_line(machine: dict[str, Any]) -> str:
    """Where this was measured."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}; "
        f"load {machine['load_average']} at the start; commit {machine['commit']}; {versions}."
    )


def _plain(figure: Figure | None) -> str:
    if figure is None or figure.status != "ok":
        return ""
    return f"{number(figure.summary.median)} {figure.unit}"
