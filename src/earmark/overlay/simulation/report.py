"""What a simulated run cost, whether it was right, and a summary that says so in a dozen lines.

table entries     what neighbours want, in all brokers: conditions, or ranges of a policy that sends ranges
control           Want, Unwant, WantRanges, UnwantRanges, Offer, Unoffer: the subscription traffic of the papers
in force after    from a subscribe or withdrawal until its client is told that it holds everywhere
converged after   from the last request of a phase until the last message that is not a publication
false positives   publications that arrived at a broker where nobody, there or beyond, wanted them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from earmark.flat.arrays import I64
from earmark.language.words import counted
from earmark.overlay.simulation.history import History, numbers
from earmark.overlay.simulation.network import Network
from earmark.overlay.simulation.oracle import Verdict
from earmark.overlay.simulation.tally import CONTROL

_CONTROL = tuple(kind.__name__ for kind in CONTROL)


@dataclass(frozen=True)
class Spread:
    """How some numbers are spread."""

    count: int = 0
    mean: float = 0.0
    median: float = 0.0
    most: float = 0.0

    @classmethod
    def of(cls, values: I64, unit: float = 1.0) -> Spread:
        """Return the spread of numbers, each divided by `unit`."""
        if not len(values):
            return cls()
        figures = (float(values.mean()), float(np.median(values)), float(values.max()))
        return cls(len(values), *(round(figure / unit, 6) for figure in figures))


@dataclass(frozen=True)
class Rest:
    """The network at the end of a phase."""

    phase: str
    requests: int
    seconds: float
    """Of the simulated clock, from the first request until nothing moved."""
    converged: float
    """Seconds from the last request until the last message that is not a publication."""
    entries: int
    """Table entries of all brokers."""
    largest: int
    """Table entries of the broker that has most."""
    control: int
    """Control messages during the phase."""
    control_bytes: int


@dataclass(frozen=True)
class Report:
    """One run under one policy."""

    policy: str
    options: dict[str, Any]
    topology: str
    brokers: int
    content: str
    subscriptions: int
    publications: int
    clients: int
    seed: int
    phases: list[Rest]
    messages: dict[str, int]
    """By kind, on all links."""
    bytes: dict[str, int]
    ranges: int
    """Ranges in messages of ranges."""
    links: list[dict[str, Any]]
    """For each link and direction: messages and bytes, of control messages and of publications."""
    in_force: Spread
    """Seconds from a request until it was in force everywhere."""
    delay: Spread
    """Seconds from a publication to its notifications."""
    path: Spread
    """Links from a publication's broker to those of clients that were notified."""
    bursts: Spread
    """Control messages on one link at one instant because of withdrawals."""
    verdict: Verdict
    frames: dict[str, int]
    crashes: int
    resets: int
    repeated: int
    refused: int
    """Requests that brokers refused."""
    refusal: str
    """Why they refused the first."""
    checksum: str
    seconds: float = field(default=0.0, compare=False)
    """Of real time, which is not part of the record."""
    advertisements: int = 0

    @property
    def control(self) -> int:
        """Control messages, on all links."""
        return sum(self.messages.get(kind, 0) for kind in _CONTROL)

    @property
    def control_bytes(self) -> int:
        """Their size."""
        return sum(self.bytes.get(kind, 0) for kind in _CONTROL)

    @property
    def hops(self) -> int:
        """Publications that arrived at brokers from neighbours."""
        return sum(self.verdict.arrivals_by_hop.values())

    @property
    def false_positives(self) -> int:
        """Those of them that were of no use."""
        return sum(self.verdict.false_by_hop.values())

    @property
    def entries(self) -> int:
        """Table entries after all subscriptions."""
        return self.subscribed.entries

    @property
    def subscribed(self) -> Rest:
        """The network after all subscriptions."""
        return next(rest for rest in self.phases if rest.phase != "advertise")

    def as_json(self) -> dict[str, Any]:
        """Return everything, with the figures that are derived."""
        derived = {name: getattr(self, name) for name in ("control", "control_bytes", "hops", "false_positives")}
        return asdict(self) | derived | {"exact": self.verdict.is_exact}


def entries_of(status: dict[str, Any]) -> int:
    """Table entries of one broker: what its neighbours want."""
    return sum(link["wants"] for link in status["links"].values())


def rest_of(network: Network, phase: int, begun: int, control: tuple[int, int]) -> Rest:
    """Describe the network at the end of a phase that began at a time, with so many control messages and bytes."""
    requests = network.plan.phases[phase].requests
    last = begun + (requests[-1].at if requests else 0)
    entries = [entries_of(status) for status in network.status()]
    now = control_of(network)
    return Rest(
        network.plan.phases[phase].name,
        len(requests),
        (network.quiet - begun) / 1e6,
        max(0, network.tally.last_control - last) / 1e6,
        sum(entries),
        max(entries),
        now[0] - control[0],
        now[1] - control[1],
    )


def control_of(network: Network) -> tuple[int, int]:
    """Control messages so far, and their bytes."""
    kinds = network.tally.by_kind()
    return sum(kinds[k][0] for k in _CONTROL if k in kinds), sum(kinds[k][1] for k in _CONTROL if k in kinds)


def report_of(
    network: Network,
    policy: str,
    options: dict[str, Any],
    rests: Sequence[Rest],
    verdict: Verdict,
    seed: int,
    seconds: float,
) -> Report:
    """Put together what a network has counted."""
    plan, tally, history = network.plan, network.tally, network.history
    kinds = tally.by_kind()
    path, delay = _deliveries(history)
    bursts = np.repeat(np.array(list(tally.bursts), np.int64), np.array(list(tally.bursts.values()), np.int64))
    return Report(
        policy,
        options,
        plan.topology.name,
        len(plan.topology.brokers),
        plan.content.name,
        len(plan.content.conditions),
        len(plan.content.events),
        len(plan.home),
        seed,
        list(rests),
        {kind: count for kind, (count, _) in kinds.items()},
        {kind: size for kind, (_, size) in kinds.items()},
        tally.ranges,
        _links(network),
        Spread.of(numbers(history.waits), 1e6),
        Spread.of(delay, 1e6),
        Spread.of(path),
        Spread.of(bursts),
        verdict,
        dict(tally.frames),
        network.crashes,
        network.resets,
        network.repeated,
        len(network.refused),
        next(iter(network.refused), ""),
        tally.digest,
        round(seconds, 3),
        len(plan.content.events) * plan.is_advertised,
    )


def _deliveries(history: History) -> tuple[I64, I64]:
    """Return the links that each notification travelled, and the microseconds it took."""
    publication = numbers(history.notified_publication)
    home = np.array(history.plan.home, np.int64)[numbers(history.notified_client)]
    path = history.plan.topology.distances[history.origin[publication], home]
    return path, numbers(history.notified_at) - history.sent_at[publication]


def _links(network: Network) -> list[dict[str, Any]]:
    out = []
    for (sender, receiver), count in sorted(network.tally.messages.items()):
        size = network.tally.bytes[sender, receiver]
        out.append(
            {
                "from": sender,
                "to": receiver,
                "control": sum(count[kind] for kind in _CONTROL),
                "control_bytes": sum(size[kind] for kind in _CONTROL),
                "publications": count["Publication"],
                "bytes": size.total(),
            }
        )
    return out


# --- in words --------------------------------------------------------------------------------------------------------


def summary(report: Report) -> str:
    """Describe a run in about a dozen lines."""
    verdict = report.verdict
    title = f"{report.policy}{_options(report.options)} on {report.topology}: {counted(report.brokers, 'broker')}, "
    title += f"{counted(report.clients, 'client')}, {counted(report.subscriptions, 'subscription')} "
    title += f"({report.content}), {counted(report.publications, 'publication')}"
    lines = [title, f"  deliveries      {_judged(verdict)}"]
    lines += [f"                  {example}" for example in verdict.examples]
    if report.advertisements:
        offers = sum(report.messages.get(kind, 0) for kind in ("Offer", "Unoffer"))
        size = sum(report.bytes.get(kind, 0) for kind in ("Offer", "Unoffer"))
        told = f"told in {offers:,} of the control messages ({_size(size)})"
        lines.append(f"  advertisements  {report.advertisements:,}, {told}")
    for rest in report.phases:
        if rest.control:
            lines.append(
                f"  {rest.phase:<14}  {rest.control:,} control messages ({_size(rest.control_bytes)}), converged "
                f"{_time(rest.converged)} after the last request"
            )
            tables = f"table entries: {rest.entries:,} in all brokers, at most {rest.largest:,} in one"
            lines += [f"{'':16}  {tables}"] if rest.phase != "advertise" else []
    share = f"{report.false_positives / report.hops:.1%}" if report.hops else "none"
    false = ", ".join(f"{count:,} at {hop}" for hop, count in sorted(verdict.false_by_hop.items())[:6])
    lines += [
        f"  publications    {report.hops:,} hops, {report.false_positives:,} of no use ({share})"
        + (f"; by links travelled: {false}" if false else ""),
        f"  notifications   {verdict.notifications:,}, over {report.path.mean:.1f} links on average (at most "
        f"{report.path.most:.0f}), after {_time(report.delay.mean)} on average (at most {_time(report.delay.most)})",
        f"  in force        {_time(report.in_force.median)} after a request (median), at most "
        f"{_time(report.in_force.most)}",
    ]
    if report.bursts.count:
        lines.append(
            f"  bursts          {report.bursts.count:,} by withdrawals: {report.bursts.mean:.1f} control messages on "
            f"average, at most {report.bursts.most:,.0f}, on one link at once"
        )
    if report.refused:
        lines.append(f"  refused         {counted(report.refused, 'request')}, the first: {report.refusal}")
    if report.frames:
        frames = ", ".join(f"{count:,} {what}" for what, count in report.frames.items())
        lines.append(
            f"  links           frames: {frames}; {counted(report.crashes, 'crash', 'crashes')}, "
            f"{counted(report.resets, 'lost channel')}"
        )
    lines.append(f"  record          {report.checksum} (the same for the same seed), {report.seconds:.1f} s")
    return "\n".join(lines)


def _judged(verdict: Verdict) -> str:
    if verdict.is_exact:
        crashed = f"; {verdict.lost_in_crashes:,} lost inside brokers that crashed" * bool(verdict.lost_in_crashes)
        return (
            f"exact: {counted(verdict.delivered, 'match', 'matches')} delivered once, and nothing else, as one central "
            f"scan says ({verdict.expected:,} had to be){crashed}"
        )
    return f"WRONG: {verdict.missing:,} missing, {verdict.wrong:,} wrong, {verdict.twice:,} twice"


def _options(options: dict[str, Any]) -> str:
    return f" ({', '.join(f'{name}={value}' for name, value in options.items())})" if options else ""


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1_000:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1_000
    return f"{count:,.1f} GB"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def comparison(reports: Sequence[Report]) -> str:
    """Compare runs of several policies with the first one, as a table."""
    head = ("policy", "control", "bytes", "entries", "largest", "hops", "of no use", "burst", "seconds", "deliveries")
    rows = [head]
    for report in reports:
        rows.append(
            (
                report.policy + _options(report.options),
                f"{report.control:,}",
                _size(report.control_bytes),
                f"{report.entries:,}",
                f"{report.subscribed.largest:,}",
                f"{report.hops:,}",
                f"{report.false_positives:,}",
                f"{report.bursts.most:,.0f}",
                f"{report.seconds:.1f}",
                "exact" if report.verdict.is_exact else "WRONG",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
