"""Blocks of the documentation that are generated from results, so that no number in it is written by hand.

A page marks a block, and everything between the two lines is replaced (`python scripts/paper_pages.py`):

    <!-- results: vcr/figure-6 -->
    <!-- end of results -->

A block is `PAPER/EXPERIMENT` (setting, verdicts, tables), `PAPER` (all verdicts of a paper), or `all` (the count of
verdicts by paper and by kind of claim, the machines, and the runs). Within a sentence, the verdict on one claim is
cited by `PAPER/CLAIM`:

    The SOPT-R-tree is the fastest (<!-- verdict: ranked/sopt-always-first -->holds, …<!-- end of verdict -->).

A number is cited by an expression (`citations.py`), such as the ratio of two series at one place:

    The R-tree takes <!-- number: ratio: vcr/figure-7 > storage; R-tree; 256,000 over
    vcr/figure-7 > storage; VCR, ours; 256,000 -->1.4×<!-- end of number --> the memory of ours.

A test compares the pages with what the committed results generate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from earmark.errors import EarmarkError
from earmark.report.citations import Unknown, cite
from earmark.report.claims import KINDS, Verdict, claims_of, tally, verdicts
from earmark.report.claims.words import number, text_of
from earmark.report.experiment import Measurement, Panel, Point
from earmark.report.explanations import explained, explanations_of
from earmark.report.papers import PAPERS, all_keys, differs_of, experiments_of
from earmark.report.protocol import machines, run_lines, versions

BLOCK = re.compile(r"(<!-- results: (\S+) -->\n).*?(<!-- end of results -->)", re.DOTALL)
CITED = re.compile(r"(<!-- verdict: ([\w-]+)/(\S+) -->).*?(<!-- end of verdict -->)", re.DOTALL)
NUMBER = re.compile(r"(<!-- number: (.+?) -->).*?(<!-- end of number -->)", re.DOTALL)
NOT_THERE = "not in the committed run"
MISSING = "*Not in the committed run.*\n"


def filled(page: str, measurements: Sequence[Measurement]) -> str:
    """Return a page with its blocks made from measurements."""
    page = BLOCK.sub(lambda block: f"{block[1]}\n{generated(block[2], measurements)}\n{block[3]}", page)
    page = NUMBER.sub(lambda cited: cited[1] + _number_of(cited[2], measurements) + cited[3], page)
    return CITED.sub(lambda cited: cited[1] + _cited(cited[2], cited[3], measurements) + cited[4], page)


def _number_of(expression: str, measurements: Sequence[Measurement]) -> str:
    """Return the number that an expression cites."""
    expression = " ".join(expression.split())
    try:
        return cite(expression, measurements)
    except Unknown:
        for key in re.findall(r"([\w-]+/[\w-]+) > ", expression):
            if key not in all_keys():
                raise EarmarkError(
                    f"expected an experiment, such as vcr/figure-6, in a citation, got {key!r}"
                ) from None
    return NOT_THERE


def _cited(paper: str, claim: str, measurements: Sequence[Measurement]) -> str:
    """Return the verdict on one claim."""
    chosen = [one for one in claims_of(paper) if one.id == claim]
    if not chosen:
        raise EarmarkError(f"expected the id of a claim of {paper}, got {claim!r}")
    for measurement in measurements:
        for verdict in verdicts(measurement, chosen):
            return str(verdict)
    return NOT_THERE


def generated(name: str, measurements: Sequence[Measurement]) -> str:
    """Return the Markdown of one block."""
    by_key = {measurement.key: measurement for measurement in measurements}
    if name == "all":
        return _overview(measurements)
    if name in {paper.name for paper in PAPERS}:
        chosen = [by_key[e.key] for e in experiments_of(name) if e.key in by_key]
        group = [verdict for measurement in chosen for verdict in verdicts(measurement)]
        return _verdicts(group, explained(measurements)) or MISSING
    if name not in all_keys():
        raise EarmarkError(f"expected the name of a paper or an experiment, or all, in a block, got {name!r}")
    return _experiment(by_key[name], explained(measurements)) if name in by_key else MISSING


def _experiment(measurement: Measurement, why: Mapping[str, str]) -> str:
    setting = f"*The paper:* {measurement.published}. *Here:* {measurement.setting}."
    parts = [f"{setting} {differs_of(measurement)}".rstrip() + "\n", _verdicts(verdicts(measurement), why)]
    parts += [_table(measurement, panel) for panel in measurement.panels if measurement.of_panel(panel.name)]
    return "\n".join(part for part in parts if part)


def _verdicts(group: Sequence[Verdict], explained: Mapping[str, str]) -> str:
    if not group:
        return ""
    rows = ["| claim | section | verdict |", "|---|---|---|"]
    for verdict in group:
        why = "" if verdict.holds else explained.get(f"{verdict.claim.paper}/{verdict.claim.id}", "")
        shown = f"**{verdict.status}**{str(verdict).removeprefix(verdict.status)}{'. ' + why if why else ''}"
        rows.append(f"| {_cell(verdict.claim.text)} | {verdict.claim.where} | {_cell(shown)} |")
    return "\n".join(rows) + "\n"


def _table(measurement: Measurement, panel: Panel) -> str:
    lines = measurement.of_panel(panel.name)
    names = " | ".join(_cell(series.name) for series in lines)
    rows = [f"| {_cell(panel.x)} | {names} |", "|---" * (len(lines) + 1) + "|"]
    for x in measurement.places(panel.name):
        cells = [_number(series.at(x), measurement.printed_at(panel.name, series.name, x)) for series in lines]
        rows.append(f"| {_cell(text_of(x))} | {' | '.join(cells)} |")
    return f"{measurement.label}, {panel.name}, {panel.unit}:\n\n" + "\n".join(rows) + "\n"


def _number(point: Point | None, printed: float | None) -> str:
    theirs = "" if printed is None else f" (paper: {number(printed)})"
    if point is None:
        return f"–{theirs}"
    return (number(point.median) if point.samples else point.status) + theirs


def _overview(measurements: Sequence[Measurement]) -> str:
    names = " | ".join(name.format(s="") for name in KINDS.values())
    rows = [f"| paper | experiments | {names} | seconds |", "|---" * (len(KINDS) + 3) + "|"]
    every: list[Verdict] = []
    for paper in PAPERS:
        group = [measurement for measurement in measurements if measurement.paper == paper.name]
        judged = [verdict for measurement in group for verdict in verdicts(measurement)]
        every += judged
        seconds = sum(measurement.seconds for measurement in group)
        link = f"[{paper.title}](papers/{paper.page})"
        rows.append(
            f"| {link} | {len(group)} of {len(experiments_of(paper.name))} | {_counted(judged)} | {seconds:,.0f} |"
        )
    seconds = sum(measurement.seconds for measurement in measurements)
    rows.append(f"| all | {len(measurements)} of {len(all_keys())} | {_counted(every)} | {seconds:,.0f} |")
    return "\n".join(rows) + f"\n\n{_machine(measurements)}"


def _counted(group: Sequence[Verdict]) -> str:
    """Return a cell for each kind of claims: how many hold."""
    counted = tally(group)
    return " | ".join(str(counted.get(kind, "–")) for kind in KINDS)


def _machine(measurements: Sequence[Measurement]) -> str:
    if not measurements:
        return MISSING
    days = sorted(measurement.date[:10] for measurement in measurements)
    loads = [float(measurement.machine["load_average"]) for measurement in measurements]
    return (
        f"{machines(measurements)}; load average {min(loads):.1f} to {max(loads):.1f}; scale "
        f"`{measurements[0].scale}`, {' to '.join(dict.fromkeys((days[0], days[-1])))}; {versions(measurements)}.\n"
        "\n" + "".join(f"- {run}\n" for run in run_lines(measurements))
    )


def unexplained(measurements: Sequence[Measurement]) -> str:
    """Return the failing claims that lack an explanation, as TOML to fill in for `explanations/PAPER.toml`.

    Comments give the verdict, and the operation counts of the series that the claim is about.
    """
    parts = []
    for measurement in measurements:
        written = explanations_of(measurement.paper)
        for verdict in verdicts(measurement):
            if not verdict.holds and verdict.claim.id not in written:
                parts += [
                    f"# {measurement.key}: {verdict.claim.text}",
                    f"# {verdict}",
                    *_counters(verdict, measurement),
                ]
                parts += [f'{verdict.claim.id} = ""', ""]
    return "\n".join(parts)


def _counters(verdict: Verdict, measurement: Measurement) -> list[str]:
    claim = verdict.claim
    named = {claim.over, *claim.rivals, *(claim.series if isinstance(claim.series, list) else [claim.series])}
    rows = []
    for series in measurement.of_panel(claim.panel):
        if series.name in named:
            for point in series.points:
                counts = ", ".join(f"{name} {number(value)}" for name, value in point.counts.items())
                rows.append(f"#   {series.name} at {text_of(point.x)}: {number(point.median)}; {counts}")
    return rows


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def pages(docs: Path) -> list[Path]:
    """Return the pages that may have blocks."""
    return [docs / "results.md", *sorted((docs / "papers").glob("*.md"))]
