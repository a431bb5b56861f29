"""The report: one HTML file that needs nothing else, for a desktop, a phone and a printer."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, Sequence

from earmark.report.claims import KINDS, OURS, Verdict, tally, verdicts
from earmark.report.claims.words import number, text_of
from earmark.report.experiment import Measurement, Panel, Point
from earmark.report.papers import PAPERS, differs_of
from earmark.report.plots import drawn_panels
from earmark.report.protocol import machines, run_lines, versions

MANY = 8
"""Columns of a table that fit a page in print."""
STYLE = """
:root { --ink: #1c2530; --soft: #5d6875; --line: #dde2e8; --good: #136f3a; --bad: #b3261e; --paper: #fff; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.2rem; color: var(--ink); background: var(--paper);
       font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .4rem 0 .8rem; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 .4rem; padding-top: .8rem; border-top: 3px solid var(--ink); }
h3 { font-size: 1.08rem; margin: 2rem 0 .3rem; }
h4 { font-size: .95rem; margin: 1.1rem 0 .2rem; }
p { margin: .35rem 0; } .soft, caption, dt { color: var(--soft); } small, .soft { font-size: .88rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem .9rem; margin: .5rem 0; font-size: .93rem; }
dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
figure { margin: 0; } figure img { width: 100%; height: auto; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); gap: .8rem;
          margin: .7rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; margin: .3rem 0 .8rem; }
th, td { padding: .22rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid var(--line); font-weight: 600; }
td small { color: var(--soft); font-size: .88em; }
ul.verdicts { list-style: none; padding: 0; margin: .5rem 0; }
ul.verdicts li { padding: .35rem 0 .35rem .8rem; border-left: 4px solid var(--good); margin: .35rem 0; }
ul.verdicts li.fails { border-color: var(--bad); }
.holds b { color: var(--good); } .fails b { color: var(--bad); }
.counts input { position: absolute; opacity: 0; } .counts .wide { display: none; }
.counts label { cursor: pointer; color: var(--soft); font-size: .9rem; } .counts label::before { content: "▸ "; }
.counts input:checked ~ .wide { display: block; } .counts input:checked ~ label::before { content: "▾ "; }
.counts input:focus-visible ~ label { outline: 2px solid; }
nav p { margin: .2rem 0; } nav a { margin-right: .7rem; white-space: nowrap; }
@media (max-width: 40rem) { body { padding: .8rem; font-size: 15px; } dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .4rem; } th, td { padding: .2rem .4rem; } }
@media print {
  html { font-size: 10pt; } body { max-width: none; font-size: 1rem; padding: 0; }
  nav { display: none; }
  .counts .wide { display: block; } .counts label::before { content: ""; }
  .panels { grid-template-columns: 1fr 1fr; }
  h2 { break-before: page; } h2:first-of-type { break-before: auto; } h2, h3, h4 { break-after: avoid; }
  figure, tr, li { break-inside: avoid; } thead { display: table-header-group; } .wide { overflow: visible; }
  table { font-size: 7.5pt; max-width: 100%; } table.many { font-size: 5.5pt; }
  th, td { padding: 1pt 3pt; white-space: normal; overflow-wrap: anywhere; }
  a { color: inherit; text-decoration: none; } }
"""


def page(
    measurements: Sequence[Measurement], pictures: Mapping[str, Sequence[str]], explained: Mapping[str, str]
) -> str:
    """Return the report of measurements of one scale.

    `pictures` has the SVGs of their panels by key, `explained` says why claims fail, by "paper/id".
    """
    scale = measurements[0].scale if measurements else "no"
    judged = {measurement.key: verdicts(measurement) for measurement in measurements}
    every = [verdict for group in judged.values() for verdict in group]
    parts = [
        f"<h1>Five papers, reproduced: {scale} run</h1>",
        f"<p>{_count(every, several=True)} Medians of the samples, with the least and the greatest; "
        "<em>printed</em> is the paper's own number, a hollow mark in a figure.</p>",
        _machine(measurements),
    ]
    groups = [(paper, [m for m in measurements if m.paper == paper.name]) for paper in PAPERS]
    groups = [(paper, group) for paper, group in groups if group]
    parts.append(f"<nav>{''.join(_links(paper.name, group) for paper, group in groups)}</nav>")
    for paper, group in groups:
        own = [verdict for measurement in group for verdict in judged[measurement.key]]
        parts.append(f'<h2 id="{paper.name}">{_text(paper.title)}</h2><p>{_count(own)}</p>')
        parts += [_experiment(m, pictures.get(m.key, ()), judged[m.key], explained) for m in group]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>earmark: five papers, {scale} run</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _links(paper: str, group: Sequence[Measurement]) -> str:
    """Return a line of links to a paper and its experiments."""
    links = [f'<a href="#{paper}"><b>{paper}</b></a>']
    links += [f'<a href="#{measurement.key}">{_text(measurement.label)}</a>' for measurement in group]
    return f"<p>{' '.join(links)}</p>"


def _count(group: Sequence[Verdict], several: bool = False) -> str:
    if not group:
        return "No claims are judged at this scale."
    first, *others = (f"{count} {KINDS[kind].format(s='s' if several else '')}" for kind, count in tally(group).items())
    return f"{first} hold{'; ' if others else ''}{', '.join(others)}."


def _machine(measurements: Sequence[Measurement]) -> str:
    if not measurements:
        return ""
    loads = [float(measurement.machine["load_average"]) for measurement in measurements]
    dates = sorted(measurement.date for measurement in measurements)
    rows = {
        "Machine": machines(measurements),
        "Load": f"{min(loads):.1f} to {max(loads):.1f} processes on average",
        "Versions": versions(measurements),
        "Runs": "\n".join(run_lines(measurements)),
        "When": f"{dates[0]} to {dates[-1]}, {sum(m.seconds for m in measurements) / 60:.1f} minutes of measuring",
    }
    texts = {name: _text(value).replace("\n", "<br>") for name, value in rows.items()}
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in texts.items()) + "</dl>"


def _experiment(
    measurement: Measurement, drawn: Sequence[str], group: Sequence[Verdict], explained: Mapping[str, str]
) -> str:
    rows = {
        "The paper": measurement.published,
        "Here": measurement.setting,
        "Differs": differs_of(measurement),
        "Seed": f"{measurement.seed}; took {measurement.seconds:.0f} s",
    }
    settings = "".join(f"<dt>{name}</dt><dd>{_stressed(value)}</dd>" for name, value in rows.items() if value)
    head = f"{measurement.label}: {measurement.title}"
    section = f'<small class="soft">section {measurement.section}</small>'
    names = [f"{head}: {panel.name}, {panel.unit} by {panel.x}" for panel in drawn_panels(measurement)]
    pictures = [_picture(svg, name) for svg, name in zip(drawn, names, strict=False)]
    parts = [f'<section id="{measurement.key}"><h3>{_text(head)} {section}</h3>']
    parts.append(f"<dl>{settings}</dl>")
    parts += [f"<p class=soft>The paper: {_text(note)}</p>" for note in measurement.notes]
    parts.append(_verdicts(group, explained))
    parts.append(f'<div class="panels">{"".join(pictures)}</div>')
    parts += [_table(measurement, panel) for panel in measurement.panels]
    return "\n".join([*parts, "</section>"])


def _verdicts(group: Sequence[Verdict], explained: Mapping[str, str]) -> str:
    items = []
    for verdict in group:
        why = explained.get(f"{verdict.claim.paper}/{verdict.claim.id}", "") if not verdict.holds else ""
        reason = f"<br><small>{_text(why)}</small>" if why else ""
        where = "a bar of our own" if verdict.claim.kind == OURS else f"section {_text(verdict.claim.where)}"
        text = f"{_text(verdict.claim.text)} <small class=soft>({where})</small>"
        items.append(f'<li class="{verdict.status}">{text}<br><b>{_text(str(verdict))}</b>{reason}</li>')
    return f'<ul class="verdicts">{"".join(items)}</ul>' if items else ""


def _picture(svg: str, name: str) -> str:
    """Return an SVG as an image of the page: its ids then cannot meet those of another one."""
    small = re.sub(r"\s*\n\s*", "\n", svg)
    data = base64.b64encode(small.encode()).decode()
    return f'<figure><img alt="{_text(name)}" src="data:image/svg+xml;base64,{data}"></figure>'


def _table(measurement: Measurement, panel: Panel) -> str:
    """Return the numbers of a panel: medians, spread, printed numbers and operation counts."""
    lines = measurement.of_panel(panel.name)
    if not lines:
        return ""
    head = "".join(f"<th>{_text(series.name)}</th>" for series in lines)
    rows = []
    for x in measurement.places(panel.name):
        cells = []
        for series in lines:
            printed = measurement.printed_at(panel.name, series.name, x)
            cells.append(f"<td>{_cell(series.at(x), printed)}</td>")
        rows.append(f"<tr><td>{_text(text_of(x))}</td>{''.join(cells)}</tr>")
    table = _wide(f"<th>{_text(panel.x)}</th>{head}", rows, len(lines) + 1)
    return f"<h4>{_text(panel.name)}, {_text(panel.unit)}</h4>{table}{_counts(measurement, panel)}"


def _cell(point: Point | None, printed: float | None) -> str:
    theirs = "" if printed is None else f"<br><small>printed {number(printed)}</small>"
    if point is None:
        return f"–{theirs}"
    if not point.samples:
        return f'<span title="{_text(point.note)}">{point.status}</span>{theirs}'
    low, high = number(point.low), number(point.high)
    spread = f"<br><small>{low} to {high}</small>" if len(point.samples) > 1 and low != high else ""
    return f"{number(point.median)}{spread}{theirs}"


def _counts(measurement: Measurement, panel: Panel) -> str:
    rows = []
    names = list(dict.fromkeys(name for s in measurement.of_panel(panel.name) for p in s.points for name in p.counts))
    for series in measurement.of_panel(panel.name):
        for point in series.points:
            if point.counts:
                cells = "".join(f"<td>{number(point.counts[n]) if n in point.counts else ''}</td>" for n in names)
                rows.append(f"<tr><td>{_text(series.name)}</td><td>{_text(text_of(point.x))}</td>{cells}</tr>")
    if not rows:
        return ""
    head = "".join(f"<th>{_text(name)}</th>" for name in ["series", panel.x, *names])
    table = _wide(head, rows, len(names) + 2)
    own = f"counts-{measurement.key}-{measurement.panels.index(panel)}"
    # A box that is checked shows them: <details> that are closed cannot be printed.
    label = f'<input type="checkbox" id="{own}"><label for="{own}">Operation counts</label>'
    return f'<div class="counts">{label}{table}</div>'


def _wide(head: str, rows: Sequence[str], columns: int) -> str:
    """Return a table that scrolls on a narrow screen, and is set smaller in print where it has many columns."""
    many = ' class="many"' if columns > MANY else ""
    body = "".join(rows)
    return f'<div class="wide"><table{many}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _stressed(value: str) -> str:
    """Return text as HTML, with *words* between asterisks in italics."""
    return re.sub(r"\*(\w[^*<]*\w)\*", r"<em>\1</em>", _text(value))


def _text(value: object) -> str:
    return html.escape(str(value)).replace(" %", "\u00a0%")
