"""A matcher whose changes last: `earmark.open`.

    with earmark.open("ads.earmark") as m:
        m.add("ad-17", "age BETWEEN 22 AND 36")        # on the disk when the call returns
        m.history("ad-17")                             # who changed it when, from what to what

A `Book` is a `Matcher` in front of a journal (book/journal.py). A change is made to the newest version, written to the
journal, and published when it is committed (book/commits.py). Segments are checkpoints of the journal
(book/checkpoints.py). Opened read-only, it follows the journal of the process that writes (following.py). Its history
is read by lookback.py.
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from earmark.book import care, copying, forgetting, opening, saving
from earmark.book import folder as folders
from earmark.book import history as past
from earmark.book.checkpoints import Checkpoints
from earmark.book.commits import Commits, Waiting
from earmark.book.journal import DURABILITY, Journal
from earmark.book.marks import HEAD, Mark, WriterLock
from earmark.book.publishing import prepare_root
from earmark.book.replay import Replay
from earmark.book.rows import Part, in_fewer, part_of_rows, parts_of, rows_in
from earmark.engine import edits
from earmark.engine.compaction import compacted, settled
from earmark.engine.edits import Edit, Make
from earmark.engine.stats import Stats
from earmark.engine.transaction import Transaction
from earmark.engine.updates import KEEP
from earmark.engine.version import Version
from earmark.errors import EarmarkError, SubscriptionError, TableError
from earmark.events.moments import Moment
from earmark.following import Follower, has_readable_journal
from earmark.keys.schema import Schema
from earmark.language.parameters import Params
from earmark.language.predicate import Condition
from earmark.locks import remade_lock
from earmark.matcher import DEFAULT_INDEX, Matcher
from earmark.reader import Weights
from earmark.segment.builder import Subscription
from earmark.segment.combine import Combine, combination
from earmark.segment.ids import Id, checked_id

Work = Callable[[Version], tuple[Version, Sequence[Part], Any]]
"""A change to a version: the next one, what to write of it, what to return."""


def open(
    path: str | os.PathLike[str],
    *,
    index: str | None = None,
    attributes: Mapping[str, str] | None = None,
    zone: str | None = None,
    strict: bool | None = None,
    nan: Literal["value", "null"] | None = None,
    time: str | None = None,
    index_options: Mapping[str, Any] | None = None,
    combine: Combine = "sum",
    durability: Literal["full", "normal"] = "full",
    author: str | None = None,
    readonly: bool = False,
    follow: bool = True,
    mmap: bool = True,
) -> Book:
    """Open the book in a folder, or make a new one there: a matcher whose changes last.

    A saved book, or one that Spark published, gets a journal and goes on from there. `index`, `index_options`,
    `combine` (which is not kept with the book) and `mmap` are as for `Matcher.load`; `attributes`, `zone`, `strict`,
    `nan` and `time` are those of a new book, and must be what a book that exists has. With `durability="full"` a change
    survives the loss of power when its call returns, with "normal" the end of the process. `author` is who makes the
    changes. One process may write; with `readonly` any number may read, and `follow` what is written within a second;
    without it when `refresh` is called.
    """
    if durability not in DURABILITY:
        raise EarmarkError(f"expected 'full' or 'normal' for durability, got {durability!r}")
    past.check_text(author, "an author")
    ranked_by = combination(combine)
    root = folders.root_of(path).resolve()
    new = {"attributes": attributes, "zone": zone, "strict": strict, "nan": nan, "time": time}
    if readonly:
        book = Book._reading(root, new, index, index_options, follow, mmap)
    else:
        book = Book._writing_to(root, new, index, index_options, durability, author, mmap)
    book._combination = ranked_by
    book._compile_missing(book.plan())
    return book


class Book(Follower):
    """A matcher whose changes last, with their history. `earmark.open` makes it."""

    # --- opening ---------------------------------------------------------------------------------------------

    @classmethod
    def _writing_to(
        cls,
        root: Path,
        new: Mapping[str, Any],
        index: str | None,
        index_options: Mapping[str, Any] | None,
        durability: str,
        author: str | None,
        mmap: bool,
    ) -> Book:
        folders.refuse_foreign(root)
        _check_options(root, new, index, index_options)  # before anything is written
        try:
            folders.make_root(root)
            lock = WriterLock(root)
        except OSError as problem:
            raise TableError(f"{str(root)!r} cannot be opened: {problem.strerror or problem}") from None
        journal: Journal | None = None
        mark: Mark | None = None
        try:
            journal = _journal_of(root, new, index, index_options, durability, author)
            mark = Mark(root, writable=True)
            opening.check_mark(root, journal, mark)
            prepare_root(root, folders.OF_JOURNAL)
            made, state = cls._made(root, journal, new, index, index_options, mmap)
            made._author, made._lock = author, lock
            made._commits = Commits(
                journal,
                mark,
                made._writing,
                lambda: made._version,
                made._publish,
                is_flushed=durability == "full",
            )
            made._checkpoints = Checkpoints(
                journal, made.index, state.shelf, made._published, made._make_one_segment, made._writing
            )
            weakref.finalize(made, _drop, str(root), lock, journal).atexit = False
            made._commits.rows = state.repeated  # they count as changed since the last checkpoint
            if durability == "full":
                journal.flush()  # what was written with durability="normal" may not be on the disk yet
            mark.write(state.number, durability == "full")
            if journal.facts.get("erasing"):  # a process was killed before it had removed the old files
                made._finish_erasing()
            if state.shelf.change is None and state.version.live:
                made._checkpoints.request()
        except BaseException as problem:
            for opened in (journal, mark):
                if opened is not None:
                    with suppress(EarmarkError):
                        opened.close()
            lock.release()
            if isinstance(problem, OSError):
                raise TableError(f"{str(root)!r} cannot be opened: {problem.strerror or problem}") from None
            raise
        return made

    @classmethod
    def _reading(
        cls,
        root: Path,
        new: Mapping[str, Any],
        index: str | None,
        options: Mapping[str, Any] | None,
        follow: bool,
        mmap: bool,
    ) -> Book:
        journal: Journal | None = None
        try:
            if has_readable_journal(root):
                journal = Journal.open(root, readonly=True)
                if (root / HEAD).exists():
                    with closing(Mark(root, writable=False)) as mark:
                        opening.check_mark(root, journal, mark, warn=False)
            made, _ = cls._made(root, journal, new, index, options, mmap)
        except BaseException:
            if journal is not None:
                journal.close()
            raise
        made._journal = journal
        made._refusal = (
            f"{str(root)!r} was opened read-only, so it takes no changes; open it without readonly=True to change it"
        )
        if follow:
            made._keep_following()
        return made

    @classmethod
    def _made(
        cls,
        root: Path,
        journal: Journal | None,
        new: Mapping[str, Any],
        index: str | None,
        options: Mapping[str, Any] | None,
        mmap: bool,
    ) -> tuple[Book, opening.State]:
        if journal is not None:
            opening.check_same_book(root, journal)
            state, saved = opening.state_of(root, journal, index, mmap), str(journal.facts["index"])
            options = journal.facts["index_options"] if options is None and index in (None, saved) else options
        else:
            version, saved, shelf = saving.load(root, None, mmap, index, checkpoint=True)
            state = opening.State(version, shelf, folders.current_version(root), 0)
        opening.refuse_others(root, new, state.version.schema)
        made = cls(index or saved, index_options=options)
        made._start(made._with_own_index(state.version, saved))
        made.path, made._journal, made._number, made._is_mapped = root, None, state.number, mmap
        made._book = state.shelf.book
        made._follows_journal = journal is not None
        made._known = made._version, state.number
        made._process, made._reading_journal = os.getpid(), remade_lock()
        return made, state

    _author: str | None = None
    _lock: WriterLock | None = None
    _commits: Commits | None = None
    _checkpoints: Checkpoints

    @property
    def is_readonly(self) -> bool:
        """Whether it was opened for reading only."""
        return self._lock is None

    @property
    def last_change(self) -> int:
        """The number of the last change that searches see; 0 before the first."""
        return super().last_change if self._commits is None else self._commits.number

    def __repr__(self) -> str:
        how = ", read-only" if self.is_readonly else ""
        return f"<Book {str(self.path)!r}: {len(self):,} subscriptions, index {self.index!r}{how}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse to be copied or pickled: the copy would be a matcher in memory, whose changes do not last."""
        raise EarmarkError(
            f"the durable book {str(self.path)!r} cannot be copied or pickled: backup(folder) copies it, and "
            "Matcher().add_many(m.to_arrow()) takes its subscriptions into memory"
        )

    # --- changing --------------------------------------------------------------------------------------------

    def _latest(self) -> Version:
        return self._version if self._commits is None else self._commits.head

    def _replace(self, version: Version) -> None:
        """Take other segments for the same subscriptions; readers see them after what is in line before them."""
        if self._commits is None:
            self._publish(version)
        else:
            self._commits.rearrange(version)

    def _published(self) -> tuple[Version, int, int]:
        assert self._commits is not None
        with self._writing:
            return self._version, self._commits.number, self._commits.rows

    def _make_one_segment(self) -> None:
        with self._writing:
            self._replace(compacted(self._latest(), self._build))
        with self._commits_now().quiet():  # so that it is published
            pass

    def _check_open(self) -> None:
        super()._check_open()
        if self._lock is not None and not self._lock.is_held:
            raise EarmarkError(
                f"{str(self.path)!r} was opened by the process that this one was forked from, which alone may change it"
            )

    def _change(self, kind: str, make: Make) -> Edit:
        edit: Edit = self._commit(kind, [make])
        return edit

    def _commit(self, kind: str, makes: Sequence[Make], author: str | None = None, message: str | None = None) -> Any:
        """Make edits, all or none, as one change of the journal; returns the last edit."""

        def work(version: Version) -> tuple[Version, Sequence[Part], Any]:
            parts: list[Part] = []
            edit = Edit(version)
            for make in makes:
                edit = make(version)
                parts += parts_of(version, edit)
                version = edit.version
            return version, in_fewer(parts), edit

        return self._write(kind, work, author, message)

    def _write(self, kind: str, work: Work, author: str | None = None, message: str | None = None) -> Any:
        """Do some work to the newest version, and return when it is committed and published."""
        waiting = Waiting()
        try:
            with self._writing:
                self._check_open()
                commits = self._commits_now()
                version, parts, result = work(commits.head)
                if not parts:
                    return result
                commits.put(waiting, kind, author or self._author, message, parts, settled(version, self._build))
            commits.commit(waiting)
        except BaseException:
            if self._commits is not None:
                self._commits.withdraw(waiting)
            raise
        with self._writing:
            self._compactor.request()
        self._checkpoints.request()
        return result

    def update(
        self,
        id: Id,
        condition: str | Condition = KEEP,
        *,
        weights: Weights | None = KEEP,
        score: float = KEEP,
        tags: Mapping[str, str] | None = KEEP,
        params: Params | None = None,
        starts: Moment | None = KEEP,
        ends: Moment | None = KEEP,
        if_change: int | None = None,
    ) -> None:
        """Change a subscription, as `Matcher.update`; with `if_change`, only if that change was its last one."""
        make = edits.update(Subscription(id, condition, weights, score, tags, params, starts, ends))
        if if_change is not None:
            _check_number(if_change, "for if_change")
            make = partial(self._compared, id, if_change, make)
        self._change("update", make)

    def _compared(self, id: Id, expected: int, make: Make, version: Version) -> Edit:
        """Make an edit if a change is the last one of an id. The caller holds the writers' lock."""
        edit = make(version)  # first, since it says whether there is such a subscription
        last = self._last_change_of(checked_id(id), version.schema)
        if last != expected:
            raise SubscriptionError(f"expected change {expected} as the last one of {id!r}, got change {last}")
        return edit

    def _last_change_of(self, id: Id, schema: Schema) -> int:
        assert self._commits is not None
        for stored, parts in reversed(self._commits.waiting()):
            if any(row for part in parts for row in rows_in(part.form, part.body, schema, id)):
                return int(stored.number)
        with self._history() as journal, journal.reading():
            numbers = [change.number for change, _, _ in past.states_of(journal, id, schema)]
        return numbers[-1] if numbers else 0

    def change(self, *, author: str | None = None, message: str | None = None) -> Transaction:
        """Several changes as one: `with m.change(author="ana", message="spring prices") as c: c.add(…)`.

        All of them happen when the block ends, or none if it raises. They are one entry of the history.
        What is called on the book itself meanwhile, as `m.add`, is a change of its own.
        """
        self._check_writable()
        past.check_text(author, "an author")
        past.check_text(message, "a message")
        return Transaction(self._latest, partial(self._commit, author=author, message=message))

    def _check_writable(self) -> None:
        with self._writing:
            self._check_open()
            self._commits_now().journal.check_in_place()

    # --- on disk ---------------------------------------------------------------------------------------------

    def checkpoint(self) -> int:
        """Write a version with all changes until now, for quick opening and for readers elsewhere; its last change.

        Checkpoints are made in the background by themselves, and when the book is closed.
        """
        self._check_writable()
        return self._checkpoints.make()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save the subscriptions, without their history, as a version of another book: `Matcher.save`."""
        if self._commits is None:
            super().save(folder)
            return
        with self._commits.quiet():
            super().save(folder)

    def close(self) -> None:
        """Write a checkpoint of what is not in one, and let others write; searches still work."""
        with self._writing:
            was_open, self._is_over = not self._is_over, True
            self._refusal = (
                self._refusal or f"{str(self.path)!r} is closed, so it takes no changes; searches still work"
            )
        self._compactor.wait()
        if self._lock is None:
            self._close_reading()
        if not was_open or self._lock is None or not self._lock.is_held:
            return
        commits = self._commits
        assert commits is not None
        try:
            with commits.quiet():
                pass
            self._checkpoints.wait(for_good=True)
            self._checkpoints.make()
        finally:
            try:
                self._close_reading()
                commits.close()
            finally:
                self._lock.release()

    def refresh(self) -> int:
        """Take what the writing process has committed since; returns the number of the last change."""
        return self.last_change if self._lock is not None else super().refresh()

    def stats(self) -> Stats:
        """Counts, types and sizes; `disk` has the bytes of segments and of the journal: its history and its WAL."""
        made = super().stats()
        made["disk"] = copying.disk_use(self.path)
        made["last_change"] = self.last_change
        if self._lock is not None:
            problem = self._checkpoints.problem
            made["checkpoint_problem"] = None if problem is None else str(problem) or type(problem).__name__
        return made

    # --- history ---------------------------------------------------------------------------------------------

    def undo(self, change: int, *, author: str | None = None, message: str | None = None) -> None:
        """Take a change back, by another one; an error names the subscriptions that have changed since."""
        past.check_text(author, "an author")
        past.check_text(message, "a message")
        _check_number(change, "to undo")
        self._check_writable()

        def read(journal: Journal) -> tuple[list[Part], past.States]:
            stored = past.undoable(journal, change)
            return past.inverse(journal, stored), past.net(journal, change - 1, change, self._version.schema)

        parts, states = self._from_history(read)

        def work(version: Version) -> tuple[Version, Sequence[Part], None]:
            past.refuse_conflicts(change, states, version)
            replay = Replay(version)
            for part in parts:
                replay.take(part.form, part.body)
            return replay.version(), parts, None

        self._write("undo", work, author, message or f"undo of change {change}")

    def retain(self, before: int | datetime) -> None:
        """Forget the history before a change or a time: what the book was then is where it begins.

        O(size of the journal).
        """
        self._check_writable()
        self._checkpoints.make()
        with self._commits_now().quiet():
            journal = self._commits_now().journal
            journal.refresh_facts()
            until = past.number_of(journal, before) - isinstance(before, int)
            until = min(until, self._checkpoints.change)
            oldest = journal.change(until) if until >= journal.first else None
            if oldest is None or oldest.kind == "retain":
                return
            forgetting.forget(journal, until, opening.as_of(self.path, journal, until))
            journal.vacuum()

    def erase(self, id: Id, *, author: str | None = None, message: str | None = None) -> None:
        """Remove a subscription and its whole history: nothing of its text and tags stays in any file of the book.

        That it was erased stays, with its id. What repairs have put aside, in the folder `damaged`, is removed as a
        whole. Backups, copies and what the disk itself keeps are out of reach. O(size of the book and of the journal).
        """
        one = checked_id(id)
        past.check_text(author, "an author")
        past.check_text(message, "a message")
        self._check_writable()
        if pins := folders.pinned(self.path):
            raise EarmarkError(f"version {min(pins)} is pinned and may have {id!r}: unpin it first")
        commits = self._commits_now()
        with commits.quiet():
            if self._version.find(one) is None and not commits.journal.touching(one):
                raise SubscriptionError(f"there is no subscription {id!r}, and there was none")
            version = forgetting.without(commits.head, one, self._build)
            row = part_of_rows([(one, None, None)])
            stored = commits.next_entry(past.ERASE, author or self._author, message, [row])
            commits.write_alone(
                stored, version, partial(forgetting.erase, commits.journal, one, stored, version.schema)
            )
            self._covering = None
        self._finish_erasing()

    def _finish_erasing(self) -> None:
        """Make new files without what the journal has lost, and remove the old ones."""
        try:
            self._compactor.wait()
            self._checkpoints.wait()
            self._checkpoints.make_alone()
            folders.clear_abandoned(self.path)
            care.remove_damaged(self.path)
            if left := folders.leftovers(self.path):
                pins = folders.pinned(self.path)
                raise TableError(f"version {min(pins)} is pinned" if pins else f"{str(left[0])!r} is still there")
            journal = self._commits_now().journal
            with self._commits_now().quiet():
                self._close_reading()
                journal.vacuum()
                with journal.writing("written") as connection:
                    journal.put_facts(connection, erasing=False)
        except (OSError, EarmarkError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise TableError(
                f"what was erased from {str(self.path)!r} is gone from the book and its history, but not yet from all "
                f"of its files: {reason}; erase it again, or open the book for writing again, to remove the rest"
            ) from None

    def _commits_now(self) -> Commits:
        if self._commits is None:
            raise EarmarkError("earmark.open makes a durable book; Matcher() is in memory")
        return self._commits

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the book with its history to a new folder, as it is at some moment of the call, while others write."""
        folders.check_same(self.path, self._book)
        if self._lock is not None and self._lock.is_held and not self._is_over:
            self._check_writable()
            self._checkpoints.make()
        copying.backup(self.path, path)


# --- inside --------------------------------------------------------------------------------------------------


def _journal_of(
    root: Path,
    new: Mapping[str, Any],
    index: str | None,
    index_options: Mapping[str, Any] | None,
    durability: str,
    author: str | None,
) -> Journal:
    """The journal of a folder, made now where it has none. The caller holds the lock."""
    model = _check_options(root, new, index, index_options)
    if model is not None:
        return opening.create(root, model.index, model._options, model._version.schema, durability)
    if not folders.has_journal(root):
        return opening.adopt(root, index_options or {}, durability, author)
    return Journal.open(root, durability=durability)


def _check_options(
    root: Path, new: Mapping[str, Any], index: str | None, index_options: Mapping[str, Any] | None
) -> Matcher | None:
    """Raise where options are wrong; returns a matcher that has those of a new book, None where there is a book."""
    if folders.is_book(root):
        if index is not None:
            Matcher(index, index_options=index_options)
        if any(value is not None for value in new.values()) and not folders.has_journal(root):
            opening.refuse_others(root, new, saving.load(root, None, True, None)[0].schema)
        return None
    given = {name: value for name, value in new.items() if value is not None}
    return Matcher(index or DEFAULT_INDEX, index_options=index_options, **given)


def _check_number(change: Any, purpose: str) -> None:
    if isinstance(change, bool) or not isinstance(change, int):
        raise EarmarkError(f"expected the number of a change {purpose}, got {change!r:.100}")


def _drop(root: str, lock: WriterLock, journal: Journal) -> None:
    """Let others write to a book that was dropped without being closed; what was committed is in its journal."""
    if lock.is_held:
        warnings.warn(f"the book {root!r} was dropped without close()", ResourceWarning, stacklevel=1)
        with suppress(EarmarkError):
            journal.close()
        lock.release()
