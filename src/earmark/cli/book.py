"""`earmark book …`: durable books, their subscriptions and their history; `earmark check`, `repair` and `backup`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from earmark.cli import options
from earmark.cli.shown import change_line, difference, fields, iso, listed, shown
from earmark.errors import EarmarkError
from earmark.language.words import counted

if TYPE_CHECKING:
    from earmark.book.history import Difference
    from earmark.durable import Book
    from earmark.matcher import Matcher

WRONG = 1
_INTEGER = re.compile(r"-?\d{1,19}")
_who = options.together(
    click.option("--author", metavar="NAME", help="Who makes the change; it is kept in the history."),
    click.option("--message", metavar="TEXT", help="Why; it is kept in the history."),
)
_book = click.argument("book")
_id = click.argument("id")
_as_json = options.flag("--json as_json", "Print JSON lines.")


@click.group(short_help="Make and change durable books, and look at their history.")
def book() -> None:
    """Make and change durable books, and look at their history.

    A book is a folder. Every change to it is on the disk when the command ends, with when, who and why. One process
    writes at a time. `earmark match`, `top-k`, `explain`, `audit` and `backtest` take a book wherever they take a file
    of subscriptions, and --as-of what it was. A change is named by its number, or by a time such as 2026-03-01T12:00.

    \b
    Examples
      earmark book create ads.book
      earmark book load ads.book ads.csv --author ana --message 'first load'
      earmark book history ads.book ad-17
    """


def _opened(path: str, author: str | None = None) -> Book:
    """Open a book for a change."""
    from earmark.durable import open as open_book

    _check_exists(path)
    return open_book(path, author=author)


def _read(path: str) -> Book:
    """Open a book for looking, which creates nothing."""
    from earmark.durable import open as open_book

    _check_exists(path)
    return open_book(path, readonly=True, follow=False)


def _check_exists(path: str) -> None:
    from earmark.book.folder import is_book, refuse_remains, root_of

    if not is_book(path):
        refuse_remains(root_of(path))
        raise EarmarkError(f"there is no book {path!r}; `earmark book create` makes one")


def _check_remains(path: str, purpose: str) -> None:
    from earmark.book.care import has_remains
    from earmark.book.folder import root_of

    if not has_remains(root_of(path)):
        raise EarmarkError(f"there is no book {path!r} {purpose}")


def moment_of(text: str) -> int | datetime:
    """Read a change, given by its number or by a time."""
    if re.fullmatch(r"\d{1,18}", text):
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise EarmarkError(
            f"expected the number of a change or a time such as 2026-03-01T12:00, got {text[:50]!r}"
        ) from None


def _key(matcher: Matcher, id: str) -> Any:
    """An id as the book has it: a number, where its ids are."""
    number = int(id) if _INTEGER.fullmatch(id) else None
    if number is None or id in matcher:
        return id
    kind = matcher._version.id_type
    return number if kind is int or (kind is None and number in matcher) else id


def _past_key(m: Book, id: str) -> Any:
    """The same of a subscription that the book has or had."""
    key = _key(m, id)
    return int(id) if not m.history(key) and re.fullmatch(r"-?\d{1,18}", id) else key


@contextmanager
def _worded(locate: Callable[[EarmarkError], EarmarkError]) -> Iterator[None]:
    """Inside, errors about subscriptions say what to do in words of the command line, and where as `locate` does."""
    from earmark.segment.builder import USE_UPDATE

    def reworded(problem: EarmarkError) -> EarmarkError:
        problem = problem.at(problems=tuple(map(reworded, problem.problems)))
        problem.reason = problem.reason.replace(USE_UPDATE, "--replace replaces it")
        return problem

    try:
        yield
    except EarmarkError as problem:
        raise locate(reworded(problem)) from None


def _by_id(problem: EarmarkError) -> EarmarkError:
    """The problem without a row: the ids on a command line say which subscription is meant."""
    return problem.at(row=None)


# --- making and changing -------------------------------------------------------------------------------------


@book.command(short_help="Make an empty book.")
@_book
@options.flag("--strict", "Conditions may use declared attributes only.")
@options.index(shown="auto")
@options.attribute_types
@options.zone
@options.time
def create(
    book: str, strict: bool, index: str | None, attributes: dict[str, str], zone: str | None, time: str | None
) -> None:
    """Make an empty book in a new folder. --attribute, --zone and --time are its own from then on.

    \b
    Examples
      earmark book create ads.book
      earmark book create ads.book --attribute age=integer --zone Europe/Oslo
    """
    from earmark.book.folder import is_book
    from earmark.durable import open as open_book

    if is_book(book):
        raise EarmarkError(f"{book!r} is a book already")
    open_book(book, index=index, strict=strict or None, attributes=attributes or None, zone=zone, time=time).close()
    click.echo(f"made {book!r}")


@book.command(short_help="Add one subscription.")
@_book
@_id
@click.argument("condition")
@click.option("--score", default=0.0, metavar="NUMBER", help="Fixed score.")
@options.weights
@options.tags
@click.option("--starts", metavar="TIME", help="When it starts to match.")
@click.option("--ends", metavar="TIME", help="When it ends.")
@options.flag("--replace", "Replace the subscription with this id, if there is one.")
@_who
def add(
    book: str, id: str, condition: str, replace: bool, author: str | None, message: str | None, **given: Any
) -> None:
    """Add subscription ID with an SQL condition.

    \b
    Examples
      earmark book add ads.book ad-17 "age BETWEEN 22 AND 36" --message 'spring' --author ana
      earmark book add ads.book ad-17 "age BETWEEN 22 AND 40" --replace --tag tenant=acme
    """
    fields: dict[str, Any] = {name: value for name, value in given.items() if value or value == ""}  # a wrong moment
    with _opened(book) as m, _worded(_by_id), m.change(author=author, message=message) as change:
        (change.upsert if replace else change.add)(_key(m, id), condition, **fields)


@book.command(short_help="Remove subscriptions.")
@_book
@click.argument("ids", nargs=-1, required=True)
@_who
def remove(book: str, ids: tuple[str, ...], author: str | None, message: str | None) -> None:
    """Remove subscriptions by id, all or none. Their history stays."""
    with _opened(book) as m:
        with _worded(_by_id), m.change(author=author, message=message) as change:
            change.remove_many([_key(m, id) for id in ids])
        click.echo(f"removed {counted(len(ids), 'subscription')}; {len(m):,} left")


@book.command("load", short_help="Add the subscriptions of a file.")
@_book
@click.argument("subscriptions")
@options.flag("--replace", "Replace subscriptions that are there.")
@options.flag("--string-ids", "Read the ids of a CSV file as strings, even if all of them look like integers.")
@_who
@options.reading
def load_file(
    book: str,
    subscriptions: str,
    replace: bool,
    string_ids: bool,
    author: str | None,
    message: str | None,
    reading: options.Reading,
) -> None:
    """Add the subscriptions of a file, all or none, as one change. SUBSCRIPTIONS is a file as for `earmark match`.

    The ids of a CSV file are integers if all of them look so, unless the ids of the book are strings. --attribute
    declares types in the book, in the same change.

    \b
    Examples
      earmark book load ads.book ads.csv --message 'first load'
    """
    from earmark.tabular.subscriptions import read_subscriptions

    reading.check(subscriptions)
    if reading.zone or reading.time:
        raise EarmarkError("a book has its own zone and time: --zone and --time are for `earmark book create`")
    file = read_subscriptions(reading.source(subscriptions), reading.attributes)
    with _opened(book) as m:
        before, rows = len(m), file.rows
        if file.source is not None and file.source.format == "csv" and (string_ids or m._version.id_type is str):
            rows = _with_string_ids(rows)
        with _worded(file.located), m.change(author=author, message=message) as change:
            if types := {name: one for name, one in reading.attributes.items() if not _is_declared(m, name, one)}:
                change.declare(types)
            count = (change.upsert_many if replace else change.add_many)(rows)
        click.echo(
            f"loaded {counted(count, 'subscription')} into {book!r}: {len(m) - before:,} more, {len(m):,} in all"
        )


def _is_declared(matcher: Matcher, name: str, type: str) -> bool:
    """Whether an attribute was declared with a type before."""
    about = matcher.attributes.get(name)
    return about is not None and about.declared and about.type == type


def _with_string_ids(rows: Any) -> Any:
    """Rows of a CSV file whose ids were read as integers, with the strings that they were in the file."""
    if isinstance(rows, list):
        return [{**row, "id": str(row["id"])} if row.get("id") is not None else row for row in rows]
    if "id" not in rows.column_names:
        return rows
    return rows.set_column(rows.column_names.index("id"), "id", rows.column("id").cast("string"))


@book.command(short_help="Take a change back, by another one.")
@_book
@click.argument("change", type=int)
@_who
def undo(book: str, change: int, author: str | None, message: str | None) -> None:
    """Take CHANGE back. Subscriptions that have changed since are named, and then nothing happens."""
    with _opened(book) as m:
        m.undo(change, author=author, message=message)
        click.echo(f"change {change} is undone by change {m.last_change}")


@book.command(short_help="Forget the history before a change or a time.")
@_book
@click.argument("before")
def retain(book: str, before: str) -> None:
    """Forget the history before change BEFORE, or before a time. What the book is stays as it is.

    \b
    Examples
      earmark book retain ads.book 1000
      earmark book retain ads.book 2026-01-01
    """
    with _opened(book) as m:
        m.retain(moment_of(before))
        first = next(m.changes(), None)
        click.echo("there is no history yet" if first is None else f"the history begins at change {first.number}")


@book.command(short_help="Remove a subscription and its whole history.")
@_book
@_id
@_who
def erase(book: str, id: str, author: str | None, message: str | None) -> None:
    """Remove subscription ID with its whole history: no file of the book has its text or tags afterwards.

    The history still says that ID was erased. Backups and copies of the book are out of reach.
    """
    with _opened(book) as m:
        m.erase(_past_key(m, id), author=author, message=message)
        click.echo(f"erased {id!r}; {counted(len(m), 'subscription')} left")


@book.command(short_help="Write a version with all changes until now.")
@_book
def checkpoint(book: str) -> None:
    """Write a version with all changes until now: for Spark, for readers elsewhere, and for quick opening."""
    with _opened(book) as m:
        click.echo(f"the newest checkpoint goes up to change {m.checkpoint()}")


@book.command(short_help="Give a saved or published book a journal.")
@_book
@_who
def migrate(book: str, author: str | None, message: str | None) -> None:
    """Give a book that `earmark save`, Matcher.save or Spark wrote a journal, so that its changes last.

    Its subscriptions become the first change of its history. A book that has a journal stays as it is.
    """
    from earmark.book import opening
    from earmark.book.folder import root_of

    _check_exists(book)
    opening.migrate(root_of(book).resolve(), author, message)
    with _opened(book) as m:
        click.echo(f"{book!r} has a journal: {counted(len(m), 'subscription')}, {counted(m.last_change, 'change')}")


# --- looking -------------------------------------------------------------------------------------------------


@book.command("list", short_help="List the subscriptions.")
@_book
@options.as_of
@options.output
@_as_json
def list_(book: str, as_of: str | None, output: str | None, as_json: bool) -> None:
    """List the subscriptions as rows of (id, condition, weights, score, tags, starts, ends)."""
    _write(book, as_of, output, as_json)


@book.command("as-of", short_help="List the subscriptions as they were.")
@_book
@click.argument("moment")
@options.output
@_as_json
def as_of_(book: str, moment: str, output: str | None, as_json: bool) -> None:
    """List the subscriptions as they were after a change, given by its number or a time.

    \b
    Examples
      earmark book as-of ads.book 17
      earmark book as-of ads.book 2026-03-01T12:00 -o then.parquet
    """
    _write(book, moment, output, as_json)


@book.command(short_help="Write the subscriptions to a file that `load` reads again.")
@_book
@click.argument("file")
@options.as_of
def export(book: str, file: str, as_of: str | None) -> None:
    """Write all subscriptions to a .parquet, .csv, .tsv or .jsonl file: everything about them, and nothing else."""
    m = _at(_read(book), as_of)
    count = _write_frame(m, file, False)
    click.echo(f"wrote {counted(count, 'subscription')} to {file!r}")
    if file.endswith((".csv", ".tsv")) and m and all(isinstance(id, str) and _INTEGER.fullmatch(id) for id in m):
        click.echo("the ids are strings that look like integers: load them with --string-ids", err=True)


def _write(book: str, moment: str | None, output: str | None, as_json: bool) -> int:
    return _write_frame(_at(_read(book), moment), output, as_json)


def _write_frame(matcher: Matcher, output: str | None, as_json: bool) -> int:
    from earmark.cli.files import write_tables
    from earmark.tabular.write import check_target

    if output is not None:
        check_target(output)
    return write_tables(iter([matcher.to_frame()]), output, as_json)


def _at(m: Book, moment: str | None) -> Matcher:
    return m if moment is None else m.as_of(moment_of(moment))


@book.command(short_help="Show a subscription, or what the book is.")
@_book
@click.argument("id", required=False)
@options.as_of
@options.json_object("Print it")
def show(book: str, id: str | None, as_of: str | None, as_json: bool) -> None:
    """Show one subscription; without ID, show the book: types, index; last change and bytes on disk."""
    m = _read(book)
    then = _at(m, as_of)
    if id is None:
        stats = then.stats()
        names = ("subscriptions", "last_change", "index", "segments", "attributes", "disk")
        about = {name: stats[name] for name in names if name in stats}  # type: ignore[literal-required]
        click.echo(json.dumps(about) if as_json else listed(about))
        return
    found = fields(then[_key(then, id)])
    click.echo(json.dumps(found) if as_json else listed(found))


@book.command(short_help="Show the changes of a subscription, or all changes.")
@_book
@click.argument("id", required=False)
@click.option("--since", default="0", metavar="CHANGE", help="Only changes after this one, or after a time.")
@_as_json
def history(book: str, id: str | None, since: str, as_json: bool) -> None:
    """Show who changed subscription ID, when, why, from what to what; without ID, show all changes of the book.

    \b
    Examples
      earmark book history ads.book ad-17
      earmark book history ads.book --since 2026-03-01
    """
    m = _read(book)
    start = moment_of(since)
    changes = m.changes(start)  # an error where there is no such change
    if id is None:
        for change in changes:
            about = {"change": change.number, "time": iso(change.time), "author": change.author}
            about |= {"message": change.message, "kind": change.kind, "subscriptions": change.rows}
            click.echo(json.dumps(about) if as_json else change_line(about, counted(change.rows, "subscription")))
        return
    revisions = m.history(_past_key(m, id))
    if not revisions:
        raise EarmarkError(f"there is no subscription {id!r}, and there was none")
    for one in revisions:
        if (isinstance(start, int) and one.number <= start) or (
            isinstance(start, datetime) and one.time <= _aware(start)
        ):
            continue
        about = {"change": one.number, "time": iso(one.time), "author": one.author}
        about |= {"message": one.message, "kind": one.kind}
        states = {"before": one.before and fields(one.before), "after": one.after and fields(one.after)}
        click.echo(
            json.dumps({**about, **states}) if as_json else change_line(about, difference(one.before, one.after))
        )


def _aware(moment: datetime) -> datetime:
    from datetime import UTC

    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


@book.command(short_help="Show what differs between two changes or times.")
@_book
@click.argument("one")
@click.argument("other")
@_as_json
def diff(book: str, one: str, other: str, as_json: bool) -> None:
    """Show what differs between the book as of two changes or times: + added, - removed, ~ changed.

    \b
    Examples
      earmark book diff ads.book 17 21
      earmark book diff ads.book 2026-03-01 2026-04-01 --json
    """
    found: Iterable[Difference] = _read(book).diff(moment_of(one), moment_of(other))
    for each in found:
        if as_json:
            states = {"before": each.before and fields(each.before), "after": each.after and fields(each.after)}
            click.echo(json.dumps({"id": each.id, **states}))
            continue
        sign = "+" if each.before is None else "-" if each.after is None else "~"
        click.echo(f"{sign} {shown(each.id)}: {difference(each.before, each.after).removeprefix('was ')}")


# --- care ----------------------------------------------------------------------------------------------------


@click.command(short_help="Check a book: checksums, invariants, segments against the journal.")
@_book
@options.json_object("Print the outcome")
def check(book: str, as_json: bool) -> int:
    """Read every byte of a book: checksums, invariants, the journal against the segments, the index against a scan.

    The exit code is 0 when it is whole, 1 when something is wrong with it, 2 when there is no book.

    \b
    Examples
      earmark check ads.book
      earmark check ads.book --json
    """
    from earmark.book import care

    _check_remains(book, "to check")
    problems = care.check(book)
    if as_json:
        click.echo(json.dumps({"book": book, "problems": problems}))
    else:
        click.echo("\n".join(problems) if problems else f"{book!r} is whole")
    return WRONG if problems else 0


@click.command(short_help="Make a damaged book whole from what can be read.")
@_book
def repair(book: str) -> None:
    """Make the segments of a book from its journal, and a journal that is damaged from what can be read of it.

    It prints up to which change the book could be repaired, and leaves what it could not read in the folder `damaged`.

    \b
    Example
      earmark repair ads.book
    """
    from earmark.book import care

    _check_remains(book, "to repair")
    click.echo("\n".join(care.repair(book)))


@click.command(short_help="Copy a book with its history, while others write.")
@_book
@click.argument("folder")
def backup(book: str, folder: str) -> None:
    """Copy a book with its history to a new folder, as it is at some moment, while others read and write it.

    \b
    Example
      earmark backup ads.book copies/ads-2026-03-01
    """
    from earmark.book import copying
    from earmark.book.folder import root_of

    _check_exists(book)
    copying.backup(root_of(book), folder)
    click.echo(f"copied {book!r} to {folder!r}")
