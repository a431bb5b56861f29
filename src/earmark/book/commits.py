"""How do writers in several threads share one commit, and readers see nothing that is not on the disk?

    published ──► head           what readers see; what the next change is made to
              └ waiting ┘        changes that are made, but not committed: in order, each with its version

A writer makes its change to the head and waits in line (`put`, under the writers' lock). Then it asks for a commit
(`commit`). Whoever gets there first writes all that is waiting in one transaction, and publishes the last version; the
others find that theirs is done. While one flush runs, the next changes gather behind it.

**Invariant.** What is published is committed. If a commit fails, everything that was waiting fails with it, since later
changes were made to earlier ones; the head is then what is published. An exception may come between any two lines,
as KeyboardInterrupt does: the line and the number of the last change are each replaced in one step, and whoever commits
next asks the journal what became of a commit that was cut short (`_settle`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
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

    version: Version
    stored: Entry | None = None
    is_done = False
    problem: BaseException | None = None


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
        self._flying: list[Waiting] = []
        """The first ones in line, while they are being committed."""
        self.number = journal.last()
        """The number of the last change that was published."""
        newest = journal.change(self.number)
        self._time = 0 if newest is None else newest.time
        self.rows = 0
        """Rows of the changes that were published, in all."""

    @property
    def head(self) -> Version:
        """The version that the next change is made to."""
        last = self._line[-1:]
        return last[0].version if last else self._current()

    def next_entry(self, kind: str, author: str | None, message: str | None, parts: Sequence[Part]) -> Entry:
        """The next change, as the journal stores it; the caller holds the writers' lock."""
        number = max([self.number, *(stored.number for stored, _ in self.waiting())]) + 1
        self._time = max(time.time_ns() // 1000, self._time)
        return entry(number, self._time, author, message, kind, parts)

    def put(
        self, mine: Waiting, kind: str, author: str | None, message: str | None, parts: Sequence[Part], version: Version
    ) -> None:
        """Put a change in line; the caller holds the writers' lock."""
        mine.version, mine.stored = version, self.next_entry(kind, author, message, parts)
        self._line.append(mine)

    def rearrange(self, version: Version) -> None:
        """Take the same subscriptions in other segments; the caller holds the writers' lock."""
        if not self._line:
            self._publish(version)
            return
        other = Waiting()
        other.version = version
        self._line.append(other)

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
            self._commit_line()
            yield

    def write_alone(self, stored: Entry, version: Version, write: Callable[[], object]) -> None:
        """Publish a change that `write` commits, in another way than by appending it to the journal; inside `quiet`."""
        mine = Waiting()
        mine.version, mine.stored = version, stored
        try:
            self._line = [mine]
            self._commit_line(write)
        except BaseException:
            self.withdraw(mine)
            raise
        if mine.problem is not None:
            raise mine.problem

    def commit(self, mine: Waiting) -> None:
        """Return when a change is committed and published, or raise what made that fail."""
        with self._committing:
            if not mine.is_done:
                self._commit_line()
        if mine.problem is not None:
            raise mine.problem

    def withdraw(self, mine: Waiting) -> None:
        """Take a change out of the line, for a writer that was interrupted, unless others were made to it."""
        with self._writing:
            if self._line and self._line[-1] is mine and mine not in self._flying:
                self._line = self._line[:-1]
                mine.problem, mine.is_done = EarmarkError("the change was interrupted"), True

    def _commit_line(self, write: Callable[[], object] | None = None) -> None:
        """Write all that is in line; the caller is the one who commits."""
        if self._flying:
            self._settle(None)
        try:
            with self._writing:
                self._flying = list(self._line)
            if entries := [one.stored for one in self._flying if one.stored is not None]:
                (write or partial(self.journal.append, entries))()
                self._succeed()
        except BaseException as problem:
            self._settle(problem)
            if not isinstance(problem, Exception):
                raise

    def _settle(self, problem: BaseException | None) -> None:
        """Find out what became of a commit that was cut short: it is done, has failed, or is left to the next one."""
        if self._flying and self._is_there():
            self._succeed()
        elif isinstance(problem, Exception):
            self._fail(problem)
        else:
            self._flying = []

    def _last_entry(self) -> Entry:
        """The last change that is being committed."""
        return next(one.stored for one in reversed(self._flying) if one.stored is not None)

    def _is_there(self) -> bool:
        """Whether the journal has what is being committed."""
        wanted, _ = self._last_entry()
        try:
            found = self.journal.change(wanted.number)
        except EarmarkError:
            return False
        return found is not None and found.checksum == wanted.checksum

    def _succeed(self) -> None:
        """Publish what was committed. If this is interrupted anywhere, it can be repeated as a whole."""
        last = self._last_entry()[0].number
        self._mark.write(last, self._is_flushed)
        with self._writing:
            version, rest = self._flying[-1].version, [one for one in self._line if one not in self._flying]
            while rest and rest[0].stored is None:
                version = rest.pop(0).version
            if self.number < last:
                self.rows += sum(one.stored[0].rows for one in self._flying if one.stored is not None)
            self.number = last
            self._publish(version)
            self._line = rest
            for one in self._flying:
                one.is_done = True
            self._flying = []

    def _fail(self, problem: Exception) -> None:
        """Fail everything in line."""
        reason: Exception = problem
        if not isinstance(problem, JournalError) or problem.is_unsure:
            try:
                self.journal.void()
            except EarmarkError:
                reason = JournalError(f"{reason}; whether the change is there will show when the book is opened again")
        with self._writing:
            line = self._line
            for one in line:
                one.problem = reason
            self._line, self._flying = [], []
            for one in line:
                one.is_done = True
