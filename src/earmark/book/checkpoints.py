"""When do the changes of a journal become segments, so that opening need not repeat them?

A checkpoint is a version of the book folder (saving.py) whose record says up to which change it goes. One is made when
many rows have changed since the last one, in a thread of its own beside writers and readers; when the book is closed;
and by `Book.checkpoint`. Making one folds the WAL of the journal into its database, and reads back and verifies what
was written, so that this host need not do it when the book is opened.

When one fails in the background, it is tried again after a second, then after twice as long each time, up to five
minutes; `problem` says why until one is there.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from earmark.book import folder as folders
from earmark.book import saving
from earmark.book.journal import Journal
from earmark.book.saving import Shelf
from earmark.engine.version import Version
from earmark.locks import remade_lock
from earmark.threads import at_most

LEAST_ROWS = 1 << 12
SHARE = 1 / 128
"""A checkpoint is due when more rows than this share of the living ones have changed, and more than LEAST_ROWS."""
FIRST_DELAY, LONGEST_DELAY = 1.0, 300.0
"""Seconds until one that failed is tried again: the first time, and at most."""
_LOOK = 1.0
"""Seconds between two looks whether that is still necessary."""

State = tuple[Version, int, int]
"""A published version, the number of its last change, and how many rows were changed until then."""


class Checkpoints:
    """Makes the checkpoints of a book.

    `journal` is the writer's connection; `current` gives what is published; `one` makes one segment of all; `writing`
    is the writers' lock.
    """

    def __init__(
        self,
        journal: Journal,
        index: str,
        shelf: Shelf,
        current: Callable[[], State],
        one: Callable[[], None],
        writing: Any,
    ) -> None:
        self._journal = journal
        self._root = journal.root
        self._index = index
        self._current = current
        self._make_one = one
        self._writing = writing
        self._making = remade_lock()
        self._thread: threading.Thread | None = None
        self.shelf = shelf
        self._rows = 0
        self.problem: BaseException | None = None
        """What made the last one in the background fail; None when there has been one since."""
        self._delay = 0.0
        self._next_try = 0.0
        self._stop = threading.Event()
        self._is_over = False

    @property
    def change(self) -> int:
        """The last change that the newest checkpoint has."""
        return self.shelf.change or 0

    def request(self) -> None:
        """Make one in the background, if it is due."""
        is_running = self._thread is not None and self._thread.is_alive()
        if not is_running and not self._is_over and self._is_due():
            self._thread = threading.Thread(target=self._work, name="earmark-checkpoint", daemon=True)
            self._thread.start()

    def _is_due(self) -> bool:
        version, _, rows = self._current()
        return rows - self._rows > max(LEAST_ROWS, SHARE * version.live)

    def _work(self) -> None:
        with at_most(1):
            while self._is_time() and self._is_due():
                try:
                    self.make()
                except BaseException as problem:
                    self._note(problem)

    def _is_time(self) -> bool:
        """Wait until one that failed may be tried again; returns False if the thread is to stop instead."""
        while self.problem is not None and (left := self._next_try - time.monotonic()) > 0:
            if self._stop.wait(min(left, _LOOK)):
                break
        return not self._stop.is_set()

    def _note(self, problem: BaseException) -> None:
        """Remember that one failed, and when to try again."""
        is_first, self.problem = self.problem is None, problem
        self._delay = FIRST_DELAY if is_first else min(2 * self._delay, LONGEST_DELAY)
        self._next_try = time.monotonic() + self._delay
        if is_first:
            warnings.warn(
                f"a checkpoint of {str(self._root)!r} failed, so opening it takes longer: {problem}; it is tried again",
                RuntimeWarning,
                stacklevel=1,
            )

    def wait(self, *, for_good: bool = False) -> None:
        """Wait until none is being made; with `for_good`, start none in the background from now on."""
        self._is_over = self._is_over or for_good
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            self._stop.set()
            thread.join()
            self._stop.clear()

    def make(self) -> int:
        """Make one of what is published now, unless there is one already; returns the number of its last change."""
        with self._making:
            version, number, rows = self._current_of_one_generation()
            if self.shelf.change != number:
                self._flush()
                saving.check(version, self.shelf, living=False)
                self._journal.check_in_place()  # again, since checking takes long
                self.shelf = saving.save(self._root, version, self._index, self.shelf, number, self._writing)
                self._rows = rows
                saving.load(self._root, None, True, None, checkpoint=True)  # this host has seen it now
            self.problem = None
            return number

    def make_alone(self) -> None:
        """Make one that shares no files with older ones, and remove those."""
        with self._making:
            version, number, rows = self._current_of_one_generation()
            self._flush()
            shelf = Shelf(self.shelf.book)
            self._journal.check_in_place()
            self.shelf = saving.save(self._root, version, self._index, shelf, number, self._writing)
            self._rows = rows
            with folders.alone_with(self._root):
                self._journal.check_in_place()
                folders.remove_others(self._root, set())

    def _current_of_one_generation(self) -> State:
        """What is published; in a folder, all keys are of one generation."""
        while True:
            state = self._current()
            version = state[0]
            if all(one.generation == version.schema.generation for one in version.segments):
                return state
            self._make_one()

    def _flush(self) -> None:
        """Flush the journal, since a checkpoint must not be ahead of it, and fold its WAL."""
        self._journal.check_in_place()
        journal = Journal.open(self._root)
        try:
            journal.flush()
            journal.fold()
        finally:
            journal.close()
