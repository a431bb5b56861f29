"""`earmark simulate`: a network of brokers in this process, under one policy or several, and what it costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from earmark.cli import options
from earmark.cli.shown import one_json
from earmark.errors import EarmarkError
from earmark.tabular.source import READABLE, format_of

if TYPE_CHECKING:
    from earmark.overlay.simulation import Content, Plan, Report, Topology

CONTENTS = ("mics-uniform", "mics-zipf", "shen-uniform", "shen-zipf")
_TOPOLOGY = "line:N, star:N, tree:N, tree:N:BRANCHES, random:N, figure-1, or a file of links"
_POLICIES = "Policies to compare, comma-separated: see above."
_WITHDRAW = "Share of subscriptions that is withdrawn after half of the publications."
_PLOT = "Draw traffic and table size by policy here, as PNG and SVG (needs matplotlib)."
_RECORD = "Write every message here, as JSON lines; only with one policy."
_ADVERTISE = "Clients first advertise each event; subscriptions travel only to where one is advertised that they match."
_LONGEST_LINKS = 1 << 20


def _share(name: str, text: str, most: float = 1.0) -> Callable[[options.F], options.F]:
    kind = click.FloatRange(0, most)
    return click.option(name, type=kind, default=0.0, show_default=True, metavar="SHARE", help=text)


@click.command(short_help="Simulate a network of brokers: traffic, tables, and whether all arrives.")
@click.option("--topology", default="figure-1", show_default=True, metavar="NETWORK", help=f"{_TOPOLOGY}.")
@click.option("--policies", default="flood,covering", show_default=True, metavar="A,B,…", help=_POLICIES)
@options.choice("--workload", "mics-zipf", CONTENTS, "What is subscribed to and published.")
@options.number("--attributes", 3, "Attributes of the workload.", most=64)
@options.number("--subscriptions", 1_000, "Number of subscriptions.", most=1_000_000)
@options.number("--publications", 500, "Number of publications.", most=1_000_000)
@click.option("--subscriptions-file", metavar="FILE", help="Subscriptions, instead of a workload.")
@click.option("--events-file", metavar="FILE", help="Events, instead of a workload.")
@options.number("--clients", 4, "Clients of each broker.", most=1_000)
@_share("--unsubscribes", "Share of unsubscribes among the commands that subscribe.", 0.49)
@_share("--withdraw", _WITHDRAW)
@options.flag("--mixed", "Subscribe, withdraw and publish at the same time, not one after the other.")
@options.flag("--advertise", _ADVERTISE)
@click.option("--delay", default=0.01, show_default=True, metavar="SECONDS", help="Time a link takes.")
@click.option("--jitter", default=0.0, show_default=True, metavar="SECONDS", help="By how much it varies.")
@_share("--loss", "Share of frames that links lose.", 0.9)
@_share("--duplication", "Share of frames that links repeat.", 0.9)
@options.number("--cuts", 0, "Links that are cut for a while.", least=0, most=100_000)
@options.number("--crashes", 0, "Brokers that crash and start again.", least=0, most=100_000)
@click.option("--longest", default=1.0, show_default=True, metavar="SECONDS", help="Longest cut or crash.")
@options.number("--seed", 1, "Seed of everything random: the same seed repeats a run.", least=0)
@options.json_object("Print the figures of all policies")
@click.option("--plot", metavar="FOLDER", help=_PLOT)
@options.file("--record", _RECORD)
def simulate(policies: str, as_json: bool, plot: str | None, record: str | None, **asked: Any) -> None:
    """Simulate a network of brokers with clients, and count what policies of routing cost.

    Brokers are those of `earmark broker`, in one process and with a clock of its own. Every delivery is compared with
    one central scan of all subscriptions; the summary says whether all arrived, once, and nothing else.

    \b
    Policies
      flood                  everything is told to everybody
      covering               what another one covers is not told (covering-poset: and is withdrawn;
                             covering-calm: what a withdrawal uncovers is told a few at a time)
      subsumption            what others cover together is not told, as ranges of Hilbert's curve
      subsumption-indexing   the same, decided exactly, as conditions
      merging                ranges that touch are one (merging-gap, merging-budget: or nearly touch)

    \b
    Examples
      earmark simulate
      earmark simulate --topology tree:31 --policies flood,covering,subsumption --withdraw 0.2
      earmark simulate --policies covering --mixed --loss 0.1 --cuts 10 --crashes 3
    """
    _need_extras(plot)
    from earmark.jit import note
    from earmark.overlay.simulation import VARIANTS, comparison, drawn_faults, summary
    from earmark.overlay.simulation import simulate as run

    names = [name.strip() for name in policies.split(",") if name.strip()]
    unknown = [name for name in names if name not in VARIANTS]
    if unknown or not names or len(set(names)) < len(names):
        raise EarmarkError(f"expected different policies among {', '.join(VARIANTS)}, got {policies!r}")
    if record is not None and len(names) > 1:
        raise EarmarkError("--record is for one policy; name one with --policies")
    if plot is not None:
        _made_folder(plot)
    whole = _plan(asked)
    faults = drawn_faults(
        whole, **{n: asked[n] for n in ("cuts", "crashes", "longest", "seed", "delay", "jitter", "loss", "duplication")}
    )
    reports, compiling = [], []
    for name in names:
        before = note.compiled
        with ExitStack() as stack:
            file: IO[bytes] | None = None if record is None else stack.enter_context(_opened(record))
            reports.append(run(whole, name, faults=faults, seed=asked["seed"], record=file))
        if note.compiled > before:
            compiling.append(name)
        if not as_json:
            click.echo(summary(reports[-1]) + "\n")
    if as_json:
        click.echo(one_json({"runs": [report.as_json() for report in reports]}))
    elif len(reports) > 1:
        click.echo(comparison(reports))
    if compiling:
        what = "compiling kernels, once on this machine; run it again to compare times"
        click.echo(f"earmark: the seconds of {', '.join(compiling)} include {what}", err=True)
    if plot is not None:
        _draw(reports, plot)
    if any(not report.verdict.is_exact for report in reports):
        raise EarmarkError("deliveries differ from one central scan, a bug in earmark: the summary has examples")


def _need_extras(plot: str | None) -> None:
    """Raise a sentence where an extra is not installed."""
    needed = [("msgspec", "overlay", "simulate")] + [("matplotlib", "report", "simulate --plot")] * (plot is not None)
    for module, extra, command in needed:
        try:
            __import__(module)
        except ImportError:
            raise EarmarkError(
                f"earmark {command} needs {module}, which is not installed; run: pip install 'earmark[{extra}]'"
            ) from None


def _plan(asked: Mapping[str, Any]) -> Plan:
    from earmark.overlay.simulation import plan_of

    return plan_of(
        _content(asked),
        _topology(asked["topology"], asked["seed"]),
        clients=asked["clients"],
        withdraw=asked["withdraw"],
        mixed=asked["mixed"],
        advertise=asked["advertise"],
        seed=asked["seed"],
    )


def _content(asked: Mapping[str, Any]) -> Content:
    from earmark.overlay.simulation import content_of, content_of_rows

    files = asked["subscriptions_file"], asked["events_file"]
    if all(files):
        for option, file in zip(("--subscriptions-file", "--events-file"), files, strict=True):
            if format_of(file) is None and not os.path.isdir(file):
                raise EarmarkError(f"{option}: expected a file name that ends in {READABLE}, got {file!r}")
        conditions, kinds = _conditions(files[0])
        return content_of_rows(conditions, _events(files[1], kinds), Path(files[0]).name)
    if any(files):
        raise EarmarkError("--subscriptions-file and --events-file go together")
    return content_of(
        asked["workload"],
        asked["subscriptions"],
        asked["publications"],
        attributes=asked["attributes"],
        unsubscribes=asked["unsubscribes"],
        seed=asked["seed"],
    )


def _topology(text: str, seed: int) -> Topology:
    """Return the network of a short name, or of a file with two names of brokers on each line."""
    from earmark.overlay.simulation import topology_of, topology_of_edges

    if not os.path.isfile(text):
        return topology_of(text, seed)
    with open(text, encoding="utf-8", errors="replace") as file:
        lines = file.read(_LONGEST_LINKS + 1)
    if len(lines) > _LONGEST_LINKS:
        raise EarmarkError(f"{text!r}: expected at most {_LONGEST_LINKS:,} characters of links, got more")
    links = [line.replace(",", " ").split() for line in lines.splitlines()]
    return topology_of_edges([link for link in links if link], Path(text).name)


def _reading() -> options.Reading:
    return options.Reading(attributes={}, zone=None, time=None, format=None, delimiter=None)


def _conditions(path: str) -> tuple[list[str], Mapping[str, str | None]]:
    """Return the conditions of a file of subscriptions, and the types of their attributes."""
    from earmark.cli.files import load

    matcher, _ = load(path, _reading())
    return [str(matcher[id].condition) for id in matcher], matcher.stats()["attributes"]


def _events(path: str, kinds: Mapping[str, str | None]) -> list[dict[str, Any]]:
    from earmark.overlay.values import sent_event
    from earmark.tabular.read import read_batches

    events: list[dict[str, Any]] = []
    for chunk in read_batches(_reading().source(path), kinds):
        rows: Iterable[Mapping[str, Any]] = chunk.rows if isinstance(chunk.rows, list) else chunk.rows.to_pylist()
        events += [sent_event({name: value for name, value in row.items() if name in kinds}) for row in rows]
    return events


def _made_folder(folder: str) -> None:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise EarmarkError(f"the folder {folder!r} cannot be created: {problem.strerror}") from None


def _opened(path: str) -> IO[bytes]:
    try:
        return open(path, "wb")
    except OSError as problem:
        raise EarmarkError(f"{path!r} cannot be written: {problem.strerror}") from None


def _draw(reports: Sequence[Report], folder: str) -> None:
    from earmark.overlay.simulation.plots import draw

    for file in draw(reports, Path(folder)):
        click.echo(str(file), err=True)
