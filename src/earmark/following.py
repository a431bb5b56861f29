"""How does a matcher take what another process commits to its book?

    the same machine      it repeats the changes of the journal that are new
    another machine       it opens the newest checkpoint, since the journal cannot be read from there while it changes
    no journal            it opens the newest version; once the book gets a journal, it follows that

**Invariant.** What is published is the book as it was after one of its changes, or one of its versions.
**Complexity.** A look that finds nothing new is one small read; otherwise O(rows changed), or what opening costs where
`retain` or `erase` has rewritten the changes since.
"""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from contextlib import suppress
from pathlib import Path

from earmark.book import folder as folders
from earmark.book import opening, saving
from earmark.book.journal import Journal
from earmark.book.marks import was_elsewhere
from earmark.book.replay import replayed
from earmark.engine.compaction import settled
from earmark.engine.version import Version
from earmark.errors import TableError
from earmark.lookback import LookBack

EVERY = 0.25
"""Seconds between two looks of a reader that follows."""


class Follower(LookBack):
    """A matcher that follows its book."""

    _number: int
    """The last change that it has; without a journal, the version."""
    _is_mapped: bool
    """Whether segments are mapped files, not read into memory."""
    _is_over = False

    @property
    def last_change(self) -> int:
        """The number of the last change that searches see; 0 before the first."""
        return self._number

    def _publish(self, version: Version) -> None:
        """Let searches see a version that has `last_change`. The caller holds the writers' lock."""
        self._version = version
        self._known = version, self.last_change

    def _with_own_index(self, version: Version, saved: str) -> Version:
        """A version as it was loaded, with the index of this book instead of the one that it was saved with."""
        if saved != self.index and self._build is not None:
            version = version.reindexed(self._build)
        return settled(version, self._build)

    # --- following ---------------------------------------------------------------------------------------------

    def _keep_following(self) -> None:
        """Refresh in a thread of its own, until the matcher is closed or dropped."""
        threading.Thread(target=_follow, args=(weakref.ref(self),), name="earmark-follower", daemon=True).start()

    def refresh(self) -> int:
        """Take what the writing process has committed since; returns the number of the last change."""
        with self._writing:
            book = str(folders.read_manifest(self.path)["book"])
            if book != self._book:  # another one is in its place, as after a repair that had no journal to go by
                self._book, self._is_behind = book, True
            if self._follows_journal != has_readable_journal(self.path):
                self._follow_another()
            if self._follows_journal:
                self._follow_journal()
            else:
                self._follow_versions()
        return self._number

    def _follow_another(self) -> None:
        """Follow the journal instead of versions, or versions instead of a journal that is written elsewhere now."""
        if self._follows_journal:
            newest = folders.read_record(self.path, folders.current_version(self.path))
            if newest.get("change", 0) < self._number:
                return  # until there is a checkpoint of what this reader has
            self._close_reading()
        self._follows_journal, self._is_behind = not self._follows_journal, True

    def _follow_versions(self) -> None:
        newest = folders.current_version(self.path)
        if newest != self._number or self._is_behind:
            version, saved, _ = saving.load(self.path, None, self._is_mapped, self.index, checkpoint=True)
            version = self._with_own_index(version, saved)
            self._number, self._is_behind = newest, False
            self._publish(version)

    def _follow_journal(self) -> None:
        with self._history() as journal:
            last = journal.last()
            if last <= self._number and not self._is_behind:
                return
            version, number = self._followed(journal, last)
        self._number, self._is_behind = number, False
        self._publish(version)
        self._compactor.request()

    def _followed(self, journal: Journal, last: int) -> tuple[Version, int]:
        """The version as of the newest change, made from the last one unless what comes next cannot follow it.

        That is so where `retain` has forgotten it, or `erase` has taken out rows whose types later ones need.
        """
        is_forgotten = self._is_behind or journal.first > self._number + 1
        if not is_forgotten:
            erased = journal.erased
            with suppress(TableError):  # whatever is wrong, opening the book again says so
                version, number, _ = replayed(self._version, journal, self._number, last)
                journal.refresh_facts()
                if journal.erased == erased:  # else changes that were read may lack rows that this version needs
                    return settled(version, self._build), number
            journal.refresh_facts()
        state = opening.state_of(self.path, journal, self.index, self._is_mapped)
        return self._with_own_index(state.version, str(journal.facts["index"])), state.number


def has_readable_journal(root: Path) -> bool:
    """Whether a book has a journal that can be read from here, which it cannot while another machine writes to it."""
    return folders.has_journal(root) and not was_elsewhere(root)


def _follow(follower: weakref.ref[Follower]) -> None:
    """Refresh a book again and again, until it is closed or gone."""
    is_reported = False
    while True:
        time.sleep(EVERY)
        one = follower()
        if one is None or one._is_over:
            return
        try:
            one.refresh()
            is_reported = False
        except Exception as problem:  # whatever it is, the next look may work
            if not is_reported:
                warnings.warn(f"{str(one.path)!r} cannot be followed now: {problem}", RuntimeWarning, stacklevel=1)
            is_reported = True
        del one
