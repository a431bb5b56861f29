"""How do writers in several threads share one commit, and readers see nothing that is not on the disk?

    published ──► head           what readers see; what the next change is made to
              └ waiting ┘        changes that are made, but not committed: in order, each with its version

A writer makes its change to the head and waits in line (`put`, under the writers' lock). Then it asks for a commit
(`commit`). Whoever gets there first writes all that is waiting in one transaction, and publishes the last version; the
others find that theirs is done. While one flush runs, the next changes gather behind it.

**Invariant.** What is published is committed. If a commit fails, everything that was waiting fails with it, since later
changes were made to earlier ones; the head is then what is published.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from earmark.book.journal import Journal, JournalError, Stored, entry
from earmark.book.marks import Mark
from earmark.book.rows import Part
from earmark.engine.version import Version
from earmark.errors import EarmarkError
from earmark.locks import remade_lock

Entry: TypeAlias = tuple[Stored, Sequence[Part]]


class Waiting:
    """A change in line, or other segments for the same subscriptions, which need no commit."""

    def __init__(self, version: Version, stored: Entry | None) -> None:
        self.version = version
        self.stored = stored
        self.is_done = False
        self.problem: BaseException | None = None


class Commits:
    """The changes of a book on their way to its journal. `writing` is the writers' lock."""

    def __init__(
        self,
        journal: Journal,
        mark: Mark,
        writing: Any,
        current: Callable[[], Version],
        publish: Callable[[Version], None],
        *,
        is_flushed: bool,
    ) -> None:
        self.journal = journal
        self._mark = mark
        self._writing = writing
        self._current = current
        self._publish = publish
        self._is_flushed = is_flushed
        self._committing = remade_lock()
        self._line: list[Waiting] = []
        self._flying = 0
        self.head = current()
        self.number = journal.last()
        """The number of the last change that was published."""
        newest = journal.change(self.number)
        self._time = 0 if newest is None else newest.time
        self.rows = 0
        """Rows of the changes that were published, in all."""

    def next_entry(self, kind: str, author: str | None, message: str | None, parts: Sequence[Part]) -> Entry:
        """The next change, as the journal stores it; the caller holds the writers' lock."""
        number = self.number + 1 + sum(one.stored is not None for one in self._line)
        self._time = max(time.time_ns() // 1000, self._time)
        return entry(number, self._time, author, message, kind, parts)

    def adopt(self, stored: Entry, version: Version) -> None:
        """Publish a change that the caller has committed, inside `quiet`."""
        self.head = version
        self._succeed([Waiting(version, stored)], [stored])

    def put(self, kind: str, author: str | None, message: str | None, parts: Sequence[Part], version: Version) -> Any:
        """Put a change in line; the caller holds the writers' lock."""
        waiting = Waiting(version, self.next_entry(kind, author, message, parts))
        self._line.append(waiting)
        self.head = version
        return waiting

    def rearrange(self, version: Version) -> None:
        """Take the same subscriptions in other segments; the caller holds the writers' lock."""
        self.head = version
        if self._line:
            self._line.append(Waiting(version, None))
        else:
            self._publish(version)

    def waiting(self) -> list[Entry]:
        """The changes in line; the caller holds the writers' lock."""
        return [one.stored for one in self._line if one.stored is not None]

    def close(self) -> None:
        """Close the journal."""
        self.journal.close()
        self._mark.close()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Inside, nothing is in line, and no other thread changes anything."""
        with self._committing, self._writing:
            if self._line:
                self._commit_line()
            yield

    def commit(self, mine: Waiting) -> int:
        """Return when a change is committed and published, with its number; or raise what made that fail."""
        try:
            self._committing.acquire()
        except BaseException:
            self._withdraw(mine)
            raise
        try:
            if not mine.is_done:
                self._commit_line()
        finally:
            self._committing.release()
        if mine.problem is not None:
            raise mine.problem
        assert mine.stored is not None
        return mine.stored[0].number

    def _withdraw(self, mine: Waiting) -> None:
        """Take a change out of the line, for a writer that was interrupted; not where others were made to it."""
        with self._writing:
            if len(self._line) > self._flying and self._line[-1] is mine:
                self._line.pop()
                self.head = self._line[-1].version if self._line else self._current()
                mine.problem = EarmarkError("the change was interrupted")

    def _commit_line(self) -> None:
        """Write all that is in line; the caller is the one who commits."""
        with self._writing:
            line = list(self._line)
            self._flying = len(line)
        entries = [one.stored for one in line if one.stored is not None]
        try:
            self.journal.append(entries)
        except BaseException as problem:
            if self._is_there(entries[-1][0].number):  # an interruption that came when all was done
                self._succeed(line, entries)
            else:
                self._fail(problem)
            if not isinstance(problem, Exception):
                raise
        else:
            self._succeed(line, entries)

    def _succeed(self, line: list[Waiting], entries: Sequence[Entry]) -> None:
        last = entries[-1][0].number
        self._mark.write(last, self._is_flushed)
        with self._writing:
            del self._line[: len(line)]
            self._flying = 0
            version = line[-1].version
            while self._line and self._line[0].stored is None:
                version = self._line.pop(0).version
            self.number = last
            self.rows += sum(stored.rows for stored, _ in entries)
            self._publish(version)
        for one in line:
            one.is_done = True

    def _is_there(self, number: int) -> bool:
        """Whether a commit that raised has happened after all."""
        try:
            return self.journal.last() >= number
        except EarmarkError:
            return False

    def _fail(self, problem: BaseException) -> None:
        """Fail everything in line."""
        reason: BaseException = (
            problem if isinstance(problem, Exception) else EarmarkError("the commit was interrupted")
        )
        if not isinstance(problem, JournalError) or problem.is_unsure:
            try:
                self.journal.void()
            except EarmarkError:
                reason = JournalError(f"{reason}; whether the change is there will show when the book is opened again")
        with self._writing:
            line, self._line, self._flying = self._line, [], 0
            self.head = self._current()
            for one in line:
                one.problem, one.is_done = reason, True
