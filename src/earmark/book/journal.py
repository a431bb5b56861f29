"""The journal of a book: every change, in order, in an SQLite database in WAL mode (`journal.db` in the folder).

    facts      one row: JSON with the format, the name of the book, and its options
    changes    number   time   author   message   kind   rows   parts   body          checksum
               7        µs     ana      …         add    1      0       JSON rows     of all that
               8               …                  add    1M     123     types, or –                    (rows.py)
    parts      the parts of changes that have more than fits one body: change, part, form, body, checksum
    touched    hash of an id, change, part: where to look for the history of an id (touched.py)
    pages      the same for changes of many rows

Numbers are consecutive, from the *first* one that is kept: 1, or the one in which `retain` has put everything that came
before it. A change that was made is never made differently; only `erase` and `retain` rewrite rows.

**What is promised.** `append` returns when its changes are committed: after one flush of the WAL with
`durability="full"`; with `"normal"` the system decides when to flush. If it raises, none of them is there. SQLite
guards the WAL by checksums and takes the first wrong one for its end; `Mark` (marks.py) knows how far it should reach.

**Complexity.** `append` O(rows); the history of an id O(its changes + rows in all / 1,024) bytes; opening O(1).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from earmark.book import touched
from earmark.book.rows import ROWS, Part, hash_of
from earmark.errors import EarmarkError, TableError, require
from earmark.segment.ids import Id
from earmark.segment.segment import DAMAGE

JOURNAL = "journal.db"
FILES = (JOURNAL, f"{JOURNAL}-wal", f"{JOURNAL}-shm", f"{JOURNAL}-journal")
FORMAT, LAYOUT = "earmark-journal", 1
DURABILITY = {"full": "FULL", "normal": "NORMAL"}
STARTS = ("import", "retain")
"""Kinds of changes that say how a book was, not what was done to it."""
PATIENCE = 10_000
"""Milliseconds to wait for another connection's short lock."""
CACHE_KIB = 16 << 10
"""Memory for pages: enough for the inner ones of ten million changes, so that reading a change reads one page."""
MOST_PARTS = 1 << 20
_TABLES = """
CREATE TABLE facts (body TEXT NOT NULL, checksum BLOB NOT NULL);
CREATE TABLE changes (number INTEGER PRIMARY KEY, time INTEGER NOT NULL, author TEXT, message TEXT, kind TEXT NOT NULL,
    rows INTEGER NOT NULL, parts INTEGER NOT NULL, body BLOB, checksum BLOB NOT NULL);
CREATE TABLE parts (place INTEGER PRIMARY KEY, form TEXT NOT NULL, body BLOB NOT NULL, checksum BLOB NOT NULL);
"""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_CHANGE = "number, time, author, message, kind, rows, parts, body, checksum"


class Stored(NamedTuple):
    """A change as it is stored, without its parts."""

    number: int
    time: int
    """Microseconds since 1970."""
    author: str | None
    message: str | None
    kind: str
    rows: int
    parts: int
    """How many parts are stored apart; 0 where the body is the only one."""
    body: bytes | None
    """The only part, in the form `rows`; or None."""
    checksum: bytes

    @property
    def moment(self) -> datetime:
        """When it was made."""
        return datetime.fromtimestamp(self.time // 1_000_000, UTC).replace(microsecond=self.time % 1_000_000)


def entry(
    number: int, time: int, author: str | None, message: str | None, kind: str, parts: Sequence[Part]
) -> tuple[Stored, Sequence[Part]]:
    """A change to append, with its parts."""
    rows = sum(len(part.hashes) for part in parts)
    alone = len(parts) == 1 and parts[0].form == ROWS
    body = parts[0].body if alone else None
    made = Stored(number, time, author, message, kind, rows, 0 if alone else len(parts), body, b"")
    return made._replace(checksum=_checksum(made)), parts


def _digest(*values: Any) -> bytes:
    pieces: list[bytes] = []
    for value in values:
        content = value if type(value) is bytes else b"" if value is None else str(value).encode()
        pieces += (b"%d:%d:" % (value is None, len(content)), content)
    return hashlib.blake2b(b"".join(pieces), digest_size=16).digest()


def digest_of_part(number: int, at: int, part: Part) -> bytes:
    """The checksum of a part of a change."""
    return _digest(number, at, part.form, part.body)


def _checksum(change: Stored) -> bytes:
    return _digest(*change[:-1])


def _identity(root: Path) -> tuple[int, int] | None:
    """What tells the file of a journal from another one in its place."""
    with contextlib.suppress(OSError):
        found = os.stat(root / JOURNAL)
        return found.st_dev, found.st_ino
    return None


class _Files(NamedTuple):
    """What changes with a journal."""

    has_wal: bool
    size: int
    time: int


def _state(root: Path) -> _Files:
    """The files of a journal as they are now."""
    about = os.stat(root / JOURNAL)
    return _Files((root / f"{JOURNAL}-wal").exists(), about.st_size, about.st_mtime_ns)


class JournalError(TableError):
    """The journal of a book cannot be read or written."""

    is_unsure = False
    """Whether a commit that failed may come back: its flush failed, not its writing."""


class Journal:
    """One connection to a journal; threads take turns (the caller sees to that)."""

    def __init__(self, root: Path, connection: Any, facts: dict[str, Any], frozen: Any = None) -> None:
        self.root = root
        self.facts = facts
        self._connection = connection
        self._file = _identity(root)
        self._frozen = frozen
        """How the files were, where the connection takes it that nobody changes them."""
        _open.add(self)

    # --- opening ---------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, root: Path, facts: dict[str, Any], durability: str = "full") -> Journal:
        """Make the journal of a book, which must not have one yet."""
        body = {"format": FORMAT, "layout": LAYOUT, "first": 1, **facts}
        with _guarded(root, "made"):
            connection = connect(root / JOURNAL, "rwc")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            for statement in filter(str.strip, (_TABLES + touched.TABLES).split(";")):
                connection.execute(statement)
            text = json.dumps(body)
            connection.execute("INSERT INTO facts VALUES (?, ?)", (text, _digest(text)))
            connection.execute("COMMIT")
            connection.close()
            _flush_folder(root)
        return cls.open(root, durability=durability)

    @classmethod
    def open(cls, root: Path, *, readonly: bool = False, durability: str = "full") -> Journal:
        """Open the journal of a book. A sentence says what is wrong where it is not one that can be read."""
        file = root / JOURNAL
        if file.is_symlink() or not file.is_file():
            raise JournalError(f"{str(root)!r} lacks its {JOURNAL}")
        if file.resolve() in _inherited:
            raise JournalError(
                f"the journal of {str(root)!r} was open in the process that this one was forked from, and its locks "
                "are not inherited: open the book after the fork, or start processes by 'spawn'"
            )
        with _guarded(root, "opened"):
            mode, frozen = "rw", None
            if readonly:
                mode, now = "ro", _state(root)
                if not now.has_wal and not os.access(root, os.W_OK):  # SQLite would want to make a WAL there
                    mode, frozen = "ro&immutable=1", now
            connection = connect(file, mode)
            try:
                connection.execute(f"PRAGMA synchronous = {DURABILITY[durability]}")
                if durability == "full":  # macOS flushes no further than the disk's own memory, unless it is asked to
                    connection.execute("PRAGMA fullfsync = ON")
                    connection.execute("PRAGMA checkpoint_fullfsync = ON")
                connection.execute("PRAGMA secure_delete = ON")
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
                connection.execute("PRAGMA wal_autocheckpoint = 16384")  # where nobody does it in the background
                facts = _read_facts(root, connection)
            except BaseException:
                connection.close()
                raise
        return cls(root, connection, facts, frozen)

    def another(self) -> Journal:
        """Another connection, for reading only."""
        return Journal.open(self.root, readonly=True)

    def close(self) -> None:
        """Close the connection; the last one moves what is in the WAL into the database."""
        with _guarded(self.root, "closed"):
            self._connection.close()
            _open.discard(self)

    @property
    def first(self) -> int:
        """The number of the first change that is kept."""
        return int(self.facts["first"])

    @property
    def erased(self) -> int:
        """The number of the last erasure, or 0."""
        return int(self.facts.get("erased", 0))

    @property
    def is_replaced(self) -> bool:
        """Whether the file that this is a connection to is no longer in its place: moved, removed or replaced."""
        return self._file != _identity(self.root)

    def check_in_place(self) -> None:
        """Raise where the folder was moved, removed or replaced: what is written to an open file is lost with it."""
        if self.is_replaced:
            raise JournalError(
                f"the journal of {str(self.root)!r} was moved, removed or replaced since the book was opened, so "
                "nothing more is written to it: close the book, and open it again where it is now"
            )

    @property
    def is_outdated(self) -> bool:
        """Whether the files were taken for ones that nobody changes, and somebody has: it must be opened again."""
        with _guarded(self.root, "read"):
            return self._frozen is not None and self._frozen != _state(self.root)

    def refresh_facts(self) -> None:
        """Read the facts again: another process may have written them."""
        with _guarded(self.root, "read"):
            self.facts = _read_facts(self.root, self._connection)

    # --- writing ---------------------------------------------------------------------------------------------

    def append(self, entries: Sequence[tuple[Stored, Sequence[Part]]]) -> None:
        """Write changes in one commit: all or none."""
        with self.writing("written") as connection:
            self.put(connection, entries)

    def put(self, connection: Any, entries: Sequence[tuple[Stored, Sequence[Part]]]) -> None:
        """Write changes, in a transaction."""
        for change, parts in entries:
            connection.execute(f"INSERT INTO changes ({_CHANGE}) VALUES (?,?,?,?,?,?,?,?,?)", change)
            if change.parts:
                if len(parts) >= MOST_PARTS:
                    raise EarmarkError("the change has too many rows for the journal: make several changes of it")
                first = change.number * MOST_PARTS
                connection.executemany(
                    "INSERT INTO parts VALUES (?,?,?,?)",
                    (
                        (first + at, part.form, part.body, digest_of_part(change.number, at, part))
                        for at, part in enumerate(parts)
                    ),
                )
            touched.touch(connection, change.number, [part.hashes for part in parts])

    def rewrite(self, connection: Any, change: Stored) -> None:
        """Put a change in the place of the one with its number, in a transaction."""
        made = change._replace(checksum=_checksum(change))
        connection.execute(f"REPLACE INTO changes ({_CHANGE}) VALUES (?,?,?,?,?,?,?,?,?)", made)

    @contextmanager
    def writing(self, done: str) -> Iterator[Any]:
        """A transaction; what goes wrong is one sentence, and then nothing of it is there."""
        with _guarded(self.root, done):
            connection = self._connection
            try:
                self._begin("BEGIN IMMEDIATE")
                self.check_in_place()
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def _begin(self, statement: str) -> None:
        if self._connection.in_transaction:  # the end of the last one was interrupted
            self._connection.execute("ROLLBACK")
        self._connection.execute(statement)

    def put_facts(self, connection: Any, **facts: Any) -> None:
        """Change facts, in a transaction; `refresh_facts` reads them when it is committed."""
        text = json.dumps({**_read_facts(self.root, connection), **facts})
        connection.execute("UPDATE facts SET body = ?, checksum = ?", (text, _digest(text)))

    def void(self) -> None:
        """Commit something that changes nothing.

        A commit whose flush failed may be whole in the WAL, though SQLite has rolled it back: what is committed next
        takes its place there, so it cannot come back.
        """
        with self.writing("written") as connection:
            self.refresh_facts()
            self.put_facts(connection, voided=int(self.facts.get("voided", 0)) + 1)

    def flush(self) -> None:
        """Flush what was committed to the disk, even with `durability="normal"`."""
        with _guarded(self.root, "written"), contextlib.suppress(FileNotFoundError):
            descriptor = os.open(self.root / f"{JOURNAL}-wal", os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def fold(self, mode: str = "PASSIVE") -> bool:
        """Move what is in the WAL into the database, as far as readers allow; whether all of it was."""
        with _guarded(self.root, "written"):
            busy, pages, moved = self._connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
            return not busy and pages == moved

    # --- reading ---------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Inside, the journal is as it was at one moment, whatever others write. For a few milliseconds."""
        try:
            with _guarded(self.root, "read"):
                self._begin("BEGIN")
            self.refresh_facts()
            yield
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def last(self) -> int:
        """The number of the newest change; 0 where there is none."""
        with _guarded(self.root, "read"):
            return _last(self._connection)

    def change(self, number: int) -> Stored | None:
        """One change."""
        with _guarded(self.root, "read"):
            found = self._connection.execute(f"SELECT {_CHANGE} FROM changes WHERE number = ?", (number,)).fetchone()
            return None if found is None else _checked(found, number)

    def changes(self, since: int, until: int | None = None) -> Iterator[Stored]:
        """The changes after one number, up to another, in order; each is checked, and none may be missing."""
        expected, last = since + 1, self.last() if until is None else until
        while expected <= last:  # in pages, so that no reading transaction lasts
            with _guarded(self.root, "read"):
                found = self._connection.execute(
                    f"SELECT {_CHANGE} FROM changes WHERE number >= ? AND number <= ? ORDER BY number LIMIT 1000",
                    (expected, last),
                ).fetchall()
                require(found, f"change {expected} is missing")
            for row in found:
                with _guarded(self.root, "read"):
                    change = _checked(row, expected)
                yield change
                expected += 1

    def parts(self, change: Stored, only: Iterable[int] | None = None) -> Iterator[tuple[str, bytes]]:
        """Form and body of the parts of a change, or of some of them."""
        if change.body is not None:
            yield ROWS, change.body
            return
        for part in range(change.parts) if only is None else sorted(set(only)):
            with _guarded(self.root, "read"):
                found = self._connection.execute(
                    "SELECT form, body, checksum FROM parts WHERE place = ?", (change.number * MOST_PARTS + part,)
                ).fetchone()
                require(found is not None, f"part {part} of change {change.number} is missing")
                form, body, checksum = found
                right = isinstance(body, bytes) and isinstance(form, str)
                right = right and digest_of_part(change.number, part, Part(form, body, ())) == checksum
                require(right, f"the checksum of part {part} of change {change.number} is wrong")
            yield form, body

    def touching(self, id: Id) -> dict[int, list[int]]:
        """By number, the changes that may be about an id, and which of their parts. A superset: hashes may collide."""
        with _guarded(self.root, "read"):
            return touched.touching(self._connection, hash_of(id))

    def sums(self, first: int, last: int) -> touched.Sums:
        """What the index of ids says of the changes between two, to check it. O(rows)."""
        with _guarded(self.root, "read"):
            return touched.Sums(self._connection, first, last)

    def at_time(self, time: int) -> int:
        """The number of the last change that was made at this time or before; that before the first kept, if none."""
        low, high = self.first - 1, self.last()
        while low < high:  # times never fall
            middle = (low + high + 1) // 2
            change = self.change(middle)
            if change is not None and change.time <= time:
                low = middle
            else:
                high = middle - 1
        return low

    def integrity(self) -> list[str]:
        """What SQLite finds wrong with the database, if anything; also where it is too damaged to be looked through."""
        found = []
        with _guarded(self.root, "read"):
            try:
                for row in self._connection.execute("PRAGMA integrity_check(20)"):
                    found.append(str(row[0]))
            except sqlite3.DatabaseError as problem:
                if _code(problem) not in _DAMAGED:
                    raise
                found.append(str(problem))
        return [] if found == ["ok"] else found

    def copy_to(self, file: Path) -> int:
        """Copy the journal as it is now, while others write; returns the number of the copy's last change."""
        with _guarded(self.root, "copied"):
            target = connect(file, "rwc")
            try:
                self._connection.backup(target)
                target.execute("PRAGMA journal_mode = WAL")
                return _last(target)
            finally:
                target.close()

    def vacuum(self) -> None:
        """Write the database again without its free pages, and empty the WAL. O(size of the journal)."""
        with _guarded(self.root, "written"):
            self._connection.execute("VACUUM")
        if not self.fold("TRUNCATE"):
            raise JournalError(
                f"the journal of {str(self.root)!r} is being read, so old pages are still in its WAL; close its "
                "readers and repeat this"
            )


# --- inside --------------------------------------------------------------------------------------------------

_open: weakref.WeakSet[Journal] = weakref.WeakSet()
_inherited: set[Path] = set()
"""Journals that were open when this process was forked. SQLite would take its parent's locks for its own."""
_kept: list[Any] = []
"""Their connections, which are neither used nor closed."""


def _after_fork_in_child() -> None:
    for journal in list(_open):
        _inherited.add((journal.root / JOURNAL).resolve())
        _kept.append(journal._connection)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def is_begun(root: Path) -> bool:
    """Whether a folder has a journal of changes, and not just what a killed process began with.

    That has no change yet, or a single one that says what the book is. Also true where there is no telling.
    """
    file = root / JOURNAL
    if not file.exists():
        return False
    if file.is_symlink() or file.resolve() in _inherited:
        return True
    with contextlib.suppress(sqlite3.Error), contextlib.closing(connect(file, "rw")) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "changes" not in tables:
            return bool(tables)
        kinds = [row[0] for row in connection.execute("SELECT kind FROM changes LIMIT 2")]
        return bool(kinds) and kinds not in (["declare"], ["import"])
    return True


def connect(file: Path, mode: str) -> Any:
    """A connection to an SQLite file; transactions are begun and ended by hand."""
    return sqlite3.connect(
        f"file:{quote(str(file.absolute()))}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=PATIENCE / 1000,
        cached_statements=64,
    )


def _last(connection: Any) -> int:
    (number,) = connection.execute("SELECT MAX(number) FROM changes").fetchone()
    return int(number or 0)


def _checked(row: Any, expected: int) -> Stored:
    change = Stored(*row)
    require(change.number == expected, f"change {expected} is missing")
    require(_checksum(change) == change.checksum, f"the checksum of change {expected} is wrong")
    return change


def _read_facts(root: Path, connection: Any) -> dict[str, Any]:
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    missing = {"facts", "changes", "parts", "touched", "pages"} - names
    require(not missing, f"it has no table {', '.join(sorted(missing))}")
    rows = connection.execute("SELECT body, checksum FROM facts").fetchall()
    require(len(rows) == 1 and _digest(rows[0][0]) == rows[0][1], "the checksum of its facts is wrong")
    facts = json.loads(rows[0][0])
    if facts.get("format") != FORMAT or facts.get("layout") != LAYOUT:
        raise JournalError(
            f"the journal of {str(root)!r} has the format {str(facts.get('format'))[:50]!r} of layout "
            f"{str(facts.get('layout'))[:20]}; this earmark reads {FORMAT!r} of layout {LAYOUT}"
        )
    return dict(facts)


@contextmanager
def _guarded(root: Path, done: str) -> Iterator[None]:
    """Inside, whatever is wrong with the journal is one sentence."""
    is_unsure = False
    try:
        yield
    except EarmarkError:
        raise
    except sqlite3.DatabaseError as problem:
        is_unsure = _code(problem) == sqlite3.SQLITE_IOERR
        reason = f"cannot be {done}: {problem}"
        if _code(problem) in _DAMAGED:
            reason = f"is damaged: {problem}; `earmark repair` saves what can be read"
    except OSError as problem:
        reason = f"cannot be {done}: {problem.strerror or problem}"
    except DAMAGE as problem:
        reason = f"is damaged: {str(problem) or type(problem).__name__}; `earmark repair` saves what can be read"
    else:
        return
    error = JournalError(f"the journal of {str(root)!r} {reason}")
    error.is_unsure = is_unsure
    raise error from None


def _code(problem: sqlite3.DatabaseError) -> int:
    return int(getattr(problem, "sqlite_errorcode", 0)) & 0xFF


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
