"""`earmark broker`: one broker of an overlay, on a network; `earmark broker status`, `drop`, `rekey`: a running one."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from earmark.cli import options
from earmark.cli.shown import one_json, printable
from earmark.errors import EarmarkError
from earmark.language.words import counted

if TYPE_CHECKING:
    from earmark.overlay.server import BrokerServer

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Requests to end."""
_TOKEN = "File with the shared token, readable by its owner only; without it, the variable EARMARK_TOKEN."
_LONGEST_SPACE = 1 << 20
_CA = "Certificates of the authorities that those we connect to must have."


def _values(ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, object]:
    """Return KEY=VALUE options as a dict; a value is JSON, or else a string."""
    found: dict[str, object] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{pair!r} is not of the form {param.metavar}")
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found


@click.group(
    short_help="Run a broker of an overlay, which routes publications by content.", invoke_without_command=True
)
@click.option("--name", metavar="NAME", help="Name of this broker, unique in the network.")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:7000",
    show_default=True,
    help="Where to listen; port 0 takes any.",
)
@click.option("--peer", "peers", metavar="HOST:PORT", multiple=True, help="A neighbour to connect to. Repeatable.")
@click.option("--policy", default="covering", show_default=True, help="What neighbours are told: see docs/overlay.md.")
@click.option(
    "--option",
    "policy_options",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_values,
    help="An option of the policy. Repeatable.",
)
@options.attribute_types
@click.option(
    "--advertisements",
    is_flag=True,
    help="Send subscriptions only to where something is advertised that they may match; the same for all brokers.",
)
@click.option("--token-file", metavar="FILE", help=_TOKEN)
@click.option("--state", metavar="FILE", help="Keep what local clients ask for here, so that it survives a restart.")
@click.option(
    "--forget-after",
    metavar="SECONDS",
    type=click.FloatRange(min=1),
    help="Forget clients that have been away for this long, with their subscriptions.  [default: never]",
)
@click.option(
    "--forget",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="Forget neighbours that have been away for this long: nothing new is in force meanwhile.  [default: never]",
)
@click.option(
    "--patience",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="How long to wait for neighbours that do not come or do not answer.",
)
@options.number("--holding", 65_536, "Publications that are held for a neighbour that is away.", least=0)
@click.option(
    "--zone",
    metavar="ZONE",
    default="UTC",
    show_default=True,
    help="Time zone of timestamps without one, the same in all brokers.",
)
@click.option("--tls-cert", metavar="FILE", help="Listen with TLS: the certificate, in PEM.")
@click.option("--tls-key", metavar="FILE", help="Its key, if it is not in the same file.")
@click.option("--tls-ca", metavar="FILE", help=f"Connect to peers with TLS. {_CA}")
@click.option("--allow-remote", is_flag=True, help="Use other than loopback addresses without TLS.")
@click.pass_context
def broker(
    ctx: click.Context,
    name: str | None,
    listen: str,
    peers: tuple[str, ...],
    policy: str,
    policy_options: Mapping[str, object],
    attributes: Mapping[str, str],
    advertisements: bool,
    token_file: str | None,
    state: str | None,
    forget_after: float | None,
    forget: float | None,
    patience: float,
    holding: int,
    zone: str,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    allow_remote: bool,
) -> None:
    """Run one broker, until it is interrupted.

    Brokers form a tree: each edge is named once, with --peer of one of its ends. Clients (earmark.overlay.Client)
    connect to any broker, subscribe and publish there. All brokers and clients of a network share a token.

    \b
    Examples
      head -c 24 /dev/urandom | base64 > token; chmod 600 token
      earmark broker --name hub --token-file token --state hub.state
      earmark broker --name north --listen 127.0.0.1:7001 --peer 127.0.0.1:7000 --token-file token
      earmark broker status 127.0.0.1:7000 --token-file token
      earmark broker drop 127.0.0.1:7000 north --token-file token
    """
    if ctx.invoked_subcommand is not None:
        return
    if name is None:
        raise EarmarkError("expected --name, the name of this broker in the network")
    from earmark.overlay import BrokerServer
    from earmark.overlay.access import listening_context, read_token
    from earmark.overlay.warming import warm_broker

    if tls_key is not None and tls_cert is None:
        raise EarmarkError("--tls-key is the key of a certificate: give --tls-cert as well")
    with _compiling():
        server = BrokerServer(
            name,
            token=read_token(token_file),
            listen=listen,
            peers=peers,
            policy=policy,
            options=policy_options,
            attributes=attributes or None,
            advertisements=advertisements,
            state=state,
            forget_after=forget_after,
            forget=forget,
            patience=patience,
            holding=holding,
            zone=zone,
            tls=None if tls_cert is None else listening_context(tls_cert, tls_key),
            peer_tls=_dialling(tls_ca),
            allow_remote=allow_remote,
        )
        warm_broker(policy, policy_options, advertisements)
    _log_to_stderr()
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        stopped = asyncio.run(_serve(server))
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    signal.raise_signal(stopped)  # whatever a command does then


def _dialling(authorities: str | None) -> ssl.SSLContext | None:
    from earmark.overlay.access import dialling_context

    return None if authorities is None else dialling_context(authorities)


def _access(address: str, token_file: str | None, tls_ca: str | None, allow_remote: bool) -> dict[str, Any]:
    """Return what a question to a running broker needs beside the address, which is checked first."""
    from earmark.overlay.access import address_of, check_reach, read_token

    check_reach(address_of(address), tls_ca is not None, allow_remote)
    return {"token": read_token(token_file), "tls": _dialling(tls_ca), "allow_remote": allow_remote}


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("earmark: %(message)s"))
    log = logging.getLogger("earmark.overlay")
    log.addHandler(handler)
    log.setLevel(logging.INFO)


@contextmanager
def _compiling() -> Iterator[None]:
    """Say that kernels are compiled, if they are: before others connect, since a broker does not answer meanwhile."""
    from earmark.jit import note

    before = note.compiled

    def say(compiled: int) -> None:
        if compiled == before + 1:
            what = "what this broker needs, once on this machine; it takes seconds"
            click.echo(f"earmark: compiling {what} (`earmark warm` does it ahead of time) ...", err=True)

    with note.replaced_by(say):
        yield


async def _serve(server: BrokerServer) -> int:
    """Run until a signal asks to end, and return its number. It is taken in the loop, so the broker ends in order."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        if not stopped.done():
            stopped.set_result(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    async with server:
        click.echo(f"broker {server.name!r} listens at {server.address}")
        failed = asyncio.ensure_future(server.failed())
        ends: list[asyncio.Future[Any]] = [failed, stopped]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            failed.result()
        failed.cancel()
    return await stopped


def _access_options(command: options.F) -> options.F:
    """How to reach a running broker."""
    for option in (
        click.option("--allow-remote", is_flag=True, help="Use other than loopback addresses without TLS."),
        click.option("--tls-ca", metavar="FILE", help=f"Connect with TLS. {_CA}"),
        click.option("--token-file", metavar="FILE", help=_TOKEN),
    ):
        command = option(command)
    return command


@broker.command(short_help="Show the tables, links and queues of a running broker.")
@click.argument("address", metavar="HOST:PORT")
@options.json_object("Print the status")
@_access_options
def status(address: str, as_json: bool, token_file: str | None, tls_ca: str | None, allow_remote: bool) -> None:
    """Show what a running broker has in its tables, how its links are, and what waits in its queues.

    \b
    Examples
      earmark broker status 127.0.0.1:7000 --token-file token
      earmark broker status 127.0.0.1:7000 --token-file token --json
    """
    from earmark.overlay import ask_status

    found = asyncio.run(ask_status(address, **_access(address, token_file, tls_ca, allow_remote)))
    click.echo(one_json(found) if as_json else printable(_report(found), keep="\n"))


@broker.command(short_help="Let a running broker forget a neighbour that has left for good.")
@click.argument("address", metavar="HOST:PORT")
@click.argument("neighbour", metavar="NAME")
@_access_options
def drop(address: str, neighbour: str, token_file: str | None, tls_ca: str | None, allow_remote: bool) -> None:
    """Let a running broker forget a neighbour that has left for good.

    While a neighbour is away, nothing that clients ask for is reported as in force, since it may come back. Ask each
    broker that was its neighbour. Publications that waited for it are lost. If it comes back, it is a new neighbour.

    \b
    Example
      earmark broker drop 127.0.0.1:7000 north --token-file token
    """
    from earmark.overlay import ask_drop

    found = asyncio.run(ask_drop(address, neighbour, **_access(address, token_file, tls_ca, allow_remote)))
    lost = counted(found["lost"], "publication")
    click.echo(f"the neighbour {neighbour!r} is forgotten; {lost} that waited for it are lost")


@broker.command(short_help="Let a running broker use another space for ranges.")
@click.argument("address", metavar="HOST:PORT")
@click.argument("file", metavar="FILE")
@_access_options
def rekey(address: str, file: str, token_file: str | None, tls_ca: str | None, allow_remote: bool) -> None:
    """Let a running broker use another space, from a file with its description as JSON (docs/overlay-ranges.md).

    Ask all brokers, in any order. Start them with the new space from then on: it is not in their state files.

    \b
    Example
      earmark broker rekey 127.0.0.1:7000 space.json --token-file token
    """
    from earmark.overlay import ask_rekey

    try:
        with open(file, "rb") as opened:
            text = opened.read(_LONGEST_SPACE + 1)
        if len(text) > _LONGEST_SPACE:
            raise EarmarkError(f"{file!r}: expected a space of at most {_LONGEST_SPACE:,} bytes")
        space = json.loads(text)
    except OSError as problem:
        raise EarmarkError(f"{file!r} cannot be read: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:
        raise EarmarkError(f"{file!r}: expected a space as JSON: {problem}") from None
    found = asyncio.run(ask_rekey(address, space, **_access(address, token_file, tls_ca, allow_remote)))
    click.echo(f"broker at {address}: now in the space {found['space']}")


def _report(found: Mapping[str, Any]) -> str:
    """The status as text."""
    counts = found.get("publications", {})
    words = ", ".join(f"{count:,} {word}" for word, count in counts.items())
    lines = [
        f"broker {found['name']!r} at {found['address']}: policy {found['policy']}, run {found['run']:,}",
        f"wanted: {found['entries']:,} entries",
        f"publications: {words}",
    ]
    links, clients = found.get("links", {}), found.get("clients", {})
    columns = ["state", "connected", "wants", "told", "queued", "fullness", "held", "lost", "resets"]
    lines += ["", *_table("neighbour", columns, links)] if links else ["", "no neighbours"]
    columns = ["connected", "subscriptions", "waiting", "queued", "shed", "slow"]
    lines += ["", *_table("client", columns, clients)] if clients else ["", "no clients"]
    return "\n".join(lines)


def _table(title: str, columns: list[str], rows: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    cells = [[title, *columns]]
    cells += [[name, *(_cell(row.get(column), column) for column in columns)] for name, row in sorted(rows.items())]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join([row[0].ljust(widths[0]), *padded[1:]]).rstrip()


def _cell(value: Any, column: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column == "fullness":
        return f"{value:.0%}"
    return f"{value:,}" if isinstance(value, int) else str(value)
