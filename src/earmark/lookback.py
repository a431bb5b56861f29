"""What was a book, who changed it, and when? A matcher with the history of its journal, which `Book` extends.

    history(id), changes      a little is read through one connection, which threads take in turns
    as_of, diff               much, through a connection of its own: neither writers nor readers wait for it

**Invariant.** What is read is of one history: where `retain` forgets the beginning meanwhile, it is read again, or the
error says what is gone. **Complexity.** Each method says its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from earmark.book import folder as folders
from earmark.book import history as past
from earmark.book import opening
from earmark.book.history import Change, Difference, Revision
from earmark.book.journal import Journal
from earmark.book.marks import was_elsewhere
from earmark.engine.compaction import settled
from earmark.engine.version import Version
from earmark.errors import EarmarkError, TableError
from earmark.matcher import Matcher
from earmark.segment.ids import Id, checked_id

T = TypeVar("T")
PAGE = 1000
"""Changes that are listed at once."""


class LookBack(Matcher):
    """A matcher with the history of its journal."""

    path: Path
    """The folder."""
    _book: str
    """The name that the book gave itself when it was made."""
    _journal: Journal | None
    """A connection to read the journal with, once it was needed."""
    _follows_journal: bool
    """False for a reader of a book without one, or on another machine than the writer: it follows versions."""
    _known: tuple[Version, int]
    """What is published, and the last change that it has: both of one moment."""
    _process: int
    """The process that `_journal` is of."""
    _reading_journal: Any
    """The lock of those who read it."""
    _is_behind = False
    """Whether what was followed until now was replaced: the journal by another one, or versions by a journal."""

    # --- looking back ----------------------------------------------------------------------------------------

    def history(self, id: Id) -> list[Revision]:
        """All changes of a subscription, the oldest first, also of one that was removed: when, who, why, what.

        A few milliseconds, however long the history of the book is.
        """
        one = checked_id(id)
        with self._history() as journal:
            version, number = self._known
            with journal.reading():
                return past.history(journal, one, version, None if self._is_behind else number)

    def changes(self, since: int | datetime = 0) -> Iterator[Change]:
        """The changes after one, given by its number or a time, in order. O(changes)."""
        with self._history() as journal:
            first = past.number_of(journal, since)
            return self._changes(max(first, journal.first - 1), journal.last())

    def _changes(self, start: int, last: int) -> Iterator[Change]:
        while start < last:
            with self._history() as journal, journal.reading():
                past.check_listed(journal, start + 1)
                page = list(journal.changes(start, min(last, start + PAGE)))
            for stored in page:
                yield past.described(stored, partial(self._differences, stored.number))
            start = page[-1].number

    def _differences(self, number: int) -> list[Difference]:
        def read(journal: Journal) -> list[Difference]:
            past.check_listed(journal, number)
            return past.differences(past.net(journal, number - 1, number, self._version.schema))

        return self._from_history(read)

    def as_of(self, moment: int | datetime) -> Matcher:
        """The book as it was after a change, given by its number, or at a time: a matcher that takes no changes.

        O(rows of the changes since the checkpoint before it, or since the beginning).
        """

        def read(journal: Journal) -> tuple[Version, int]:
            number = past.number_of(journal, moment)
            past.check_kept(journal, number)
            return opening.as_of(self.path, journal, number), number

        version, number = self._from_history(read)
        made = Matcher(self.index, index_options=self._options, combine=self._combination.given)
        made._start(settled(version, made._build))
        made._refusal = f"this is {str(self.path)!r} as of change {number}, which takes no changes"
        return made

    def diff(self, one: int | datetime, other: int | datetime) -> list[Difference]:
        """What differs between the book as of two changes or times: each subscription then and then. O(rows)."""

        def read(journal: Journal) -> list[Difference]:
            first, second = past.number_of(journal, one), past.number_of(journal, other)
            return past.diff(journal, first, second, self._version.schema)

        return self._from_history(read)

    # --- connections -----------------------------------------------------------------------------------------

    @contextmanager
    def _history(self) -> Iterator[Journal]:
        """A connection for reading a little of the journal, which threads take in turns."""
        if not self._follows_journal:
            name = repr(str(self.path))
            if not folders.has_journal(self.path):
                raise EarmarkError(f"{name} has no journal, so no history; opening it for writing begins one")
            if not was_elsewhere(self.path):
                raise EarmarkError(f"{name} got a journal since it was opened: refresh() follows it")
            raise EarmarkError(
                f"{name} is followed by its checkpoints, which have no history; the machine where it is written can "
                "read it"
            )
        with self._reading_journal:
            if self._process != os.getpid():  # SQLite's connections do not survive a fork
                self._journal, self._process = None, os.getpid()
            if self._journal is not None and self._journal.is_replaced:  # by a repair
                self._close_journal()
                self._is_behind = True
            if self._journal is not None and self._journal.is_outdated:
                self._close_journal()
            if self._journal is None:
                folders.check_same(self.path, self._book)
                self._journal = Journal.open(self.path, readonly=True)
            else:
                self._journal.refresh_facts()
            yield self._journal

    def _from_history(self, read: Callable[[Journal], T]) -> T:
        """Read what may be long through a connection of its own; again, where history was rewritten meanwhile."""
        while True:
            with self._history() as shared:
                journal = shared.another()
            first, erased = journal.first, journal.erased
            try:
                found = read(journal)
                journal.refresh_facts()
                if journal.erased == erased and not journal.is_outdated:
                    return found
            except TableError:
                journal.refresh_facts()
                if (journal.first, journal.erased) == (first, erased) and not journal.is_outdated:
                    raise
            finally:
                journal.close()

    def _close_reading(self) -> None:
        """Close the connection that history is read with; the next question opens another."""
        with self._reading_journal:
            self._close_journal()

    def _close_journal(self) -> None:
        if self._journal is not None and self._process == os.getpid():
            self._journal.close()
        self._journal = None
