"""How is a book with a journal made, opened and followed?

    new folder            lock, journal, then the manifest: from then on it is a book
    saved or published    the same, and its subscriptions become the first change of the journal
    book with a journal   newest checkpoint + the changes since (`State`)

A writer that was killed while it made a journal has left a folder whose manifest says nothing of it: the next one
begins again. A journal with changes is never begun again.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from earmark.book import folder as folders
from earmark.book import saving
from earmark.book.history import check_text
from earmark.book.journal import FILES, Journal, JournalError, entry, is_begun
from earmark.book.marks import HEAD, Mark, WriterLock, reset
from earmark.book.replay import empty, replayed
from earmark.book.rows import ADDED, Part, part_of_types, tables_of
from earmark.book.saving import Shelf
from earmark.engine.version import Version
from earmark.errors import EarmarkError, TableError
from earmark.keys.schema import Schema

_ATTEMPTS = 5


class State(NamedTuple):
    """A book as it was opened."""

    version: Version
    shelf: Shelf
    number: int
    """That of its last change; of a book without a journal, that of its version."""
    repeated: int
    """Rows that came after the newest checkpoint."""


def create(root: Path, index: str, options: Mapping[str, Any], schema: Schema, durability: str) -> Journal:
    """Make a folder a book with a journal. The caller holds the lock."""
    folders.refuse_foreign(root)
    attributes = {a.name: str(a.type) for a in schema}
    parts = [part_of_types("declare", attributes)] if attributes else []
    return _begin(root, index, options, schema, durability, parts, "declare")


def adopt(
    root: Path, options: Mapping[str, Any], durability: str, author: str | None = None, message: str | None = None
) -> Journal:
    """Give a saved or published book a journal, whose first change is what it has. The caller holds the lock."""
    version, index, _ = saving.load(root, None, True, None)
    parts = whole(version)
    return _begin(root, index, options, version.schema, durability, parts, "import", author, message)


def migrate(root: Path, author: str | None = None, message: str | None = None) -> None:
    """Give a saved or published book a journal, unless it has one."""
    check_text(author, "an author")
    check_text(message, "a message")
    lock = WriterLock(root)
    try:
        if not folders.has_journal(root):
            adopt(root, {}, "full", author, message).close()
    finally:
        lock.release()


def whole(version: Version) -> list[Part]:
    """All that a version has, as the parts of a change."""
    declared = {a.name: str(a.type) for a in version.schema if a.declared}
    parts = [part_of_types("declare", declared)] if declared else []
    for one in version.segments:
        parts += tables_of(ADDED, one.segment, one.living())
    return parts


def _begin(
    root: Path,
    index: str,
    options: Mapping[str, Any],
    schema: Schema,
    durability: str,
    parts: Sequence[Part],
    kind: str,
    author: str | None = None,
    message: str | None = None,
) -> Journal:
    known = folders.is_book(root)
    if (root / HEAD).exists() or is_begun(root):
        raise TableError(
            f"{str(root)!r} has a journal with changes, though its {folders.MANIFEST} says that it has none: put the "
            f"right {folders.MANIFEST} there, or move the journal and {HEAD} away"
        )
    for name in FILES:
        (root / name).unlink(missing_ok=True)
    book = str(folders.read_manifest(root)["book"]) if known else folders.new_name()
    journal = Journal.create(root, facts_of(book, index, options, schema), durability)
    try:
        if parts:
            journal.append([entry(1, time.time_ns() // 1000, author, message, kind, parts)])
        folders.write_manifest(root, folders.OF_JOURNAL, book)
        reset(root, journal.last())  # now, since before that it would be taken for the mark of a lost journal
    except BaseException:
        journal.close()
        raise
    return journal


def facts_of(book: str, index: str, options: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """What a journal says of its book."""
    settings = {"strict": schema.strict, "nan_is_null": schema.nan_is_null, "time": schema.time}
    return {"book": book, "index": index, "index_options": dict(options), "zone": schema.zone_name, **settings}


def check_mark(root: Path, journal: Journal, mark: Mark, *, warn: bool = True) -> None:
    """Raise where the journal ends before the last change that was acknowledged; without a flush, only `warn`."""
    number, was_flushed = mark.read()
    last = journal.last()
    if number <= last:
        return
    lost = f"the journal of {str(root)!r} ends with change {last}, though change {number} was made"
    if was_flushed:
        raise JournalError(f"{lost}: it is damaged; `earmark repair` goes on from what can be read")
    if warn:
        warnings.warn(f"{lost}: with durability='normal' the last changes may be lost with the power", stacklevel=4)


def state_of(root: Path, journal: Journal, index: str | None = None, mmap: bool = True) -> State:
    """The book as of the last change of its journal. Again, where a checkpoint was replaced meanwhile."""
    for attempt in range(_ATTEMPTS):
        before = _signs(root, journal)
        try:
            return _state_of(root, journal, index, mmap)
        except TableError:
            journal.refresh_facts()
            if attempt + 1 == _ATTEMPTS or (before == _signs(root, journal) and not _was_replaced(root, journal)):
                raise
    raise AssertionError("unreachable")


def _was_replaced(root: Path, journal: Journal) -> bool:
    """Whether the newest version is another than a moment ago, or the beginning of the history is."""
    now = _signs(root, journal)
    time.sleep(0.02)
    return bool(now != _signs(root, journal))


def _signs(root: Path, journal: Journal) -> Any:
    with suppress(TableError):
        return folders.newest_or_none(root), journal.first
    return None


def _state_of(root: Path, journal: Journal, index: str | None, mmap: bool) -> State:
    version, shelf, since = empty(journal), Shelf(str(journal.facts["book"])), journal.first - 1
    if (root / folders.CURRENT).exists():
        loaded, _, found = saving.load(root, None, mmap, index, checkpoint=True)
        if found.change is not None and found.change >= oldest(journal):
            version, shelf, since = loaded, found, found.change
    last = journal.last()
    if since > last:
        raise JournalError(
            f"the newest checkpoint of {str(root)!r} goes up to change {since}, its journal only to change {last}: it "
            "is damaged; `earmark repair` goes on from what can be read"
        )
    made, number, rows = replayed(version, journal, since, last)
    return State(made, shelf, number, rows)


def oldest(journal: Journal) -> int:
    """The first change that a checkpoint may go up to.

    The history of an older one was forgotten, as in a backup; or it has what an erasure has taken out of the changes
    that come next, and was not removed yet.
    """
    return max(journal.first if journal.first > 1 else 0, journal.erased)


def as_of(root: Path, journal: Journal, number: int) -> Version:
    """The book as it was after a change: from the newest checkpoint that is not later, or from the beginning."""
    version, since = empty(journal), journal.first - 1
    for one in reversed(folders.version_numbers(root)):
        with suppress(TableError):
            change = folders.read_record(root, one).get("change")
            if isinstance(change, int) and oldest(journal) <= change <= number:
                version, since = saving.load(root, one, True, None)[0], change
                break
    return replayed(version, journal, since, number)[0]


def check_same_book(root: Path, journal: Journal) -> None:
    """Raise where the journal is that of another book."""
    if journal.facts["book"] != folders.read_manifest(root)["book"]:
        raise EarmarkError(f"the journal in {str(root)!r} is that of another book")


def refuse_others(root: Path, new: Mapping[str, Any], schema: Schema) -> None:
    """Raise where options are not what the book in a folder has; attributes that are not named may be there too."""
    given = {name: value for name, value in new.items() if value is not None}
    wanted = Schema(given.get("zone", "UTC"))
    wanted.declare(given.get("attributes", {}))
    nan = "null" if schema.nan_is_null else "value"
    has = {"zone": schema.zone_name, "strict": schema.strict, "nan": nan, "time": schema.time}
    for name, value in given.items():
        if name in has and value != has[name]:
            raise EarmarkError(f"{str(root)!r} has {name}={has[name]!r}, which stays as it is, got {name}={value!r}")
    for name, type_ in ((one.name, one.type) for one in wanted):
        known = schema.by_name.get(name)
        differs = f"attribute {name!r} was given as {type_}, but {str(root)!r} has"
        if known is None:
            raise EarmarkError(f"{differs} no such attribute: declare() adds it")
        if known.type is not None and str(known.type) != str(type_):
            raise EarmarkError(f"{differs} it as {known.type}: retype() changes it")
        if not known.declared:
            raise EarmarkError(
                f"{differs} it as {known.type or 'one without a type'}, not declared: declare() fixes it"
            )
