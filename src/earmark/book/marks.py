"""What was verified on this host already?

Checksums and every invariant of a version are verified once per host, by the process that opens it there first. A file
in this user's cache folder, one for each book, tells the others: it lists digests of what was seen, made of names,
sizes, times and inodes, so a file that has changed since counts as new. Without a cache folder each process
verifies for itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from earmark.book.files import digest
from earmark.cache import cache_folder, write_atomically

_MOST_BOOKS = 1_000
_MOST_MARKS = 50_000


class Marks:
    """The digests of what was verified of one book."""

    def __init__(self, root: Path) -> None:
        self._root = str(root.resolve())
        folder = cache_folder("verified")
        self._file = None if folder is None else folder / digest(self._root.encode())
        self._known: list[str] = []
        if self._file is not None:
            with suppress(OSError, ValueError):
                self._known = [str(one) for one in json.loads(self._file.read_bytes())]
        self._set = set(self._known)

    def of(self, facts: Any, *files: Path) -> str:
        """The digest of some facts and of files as they are now."""
        seen = []
        for file in files:
            found = os.stat(file, follow_symlinks=False)
            seen.append([str(file), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino])
        return digest(json.dumps([self._root, facts, seen]).encode())

    def __contains__(self, mark: str) -> bool:
        return mark in self._set

    def add(self, marks: Iterable[str]) -> None:
        """Tell the other processes of this host that these were verified."""
        new = [mark for mark in marks if mark not in self._set]
        if self._file is None or not new:
            return
        self._known = [*self._known, *new][-_MOST_MARKS:]
        self._set = set(self._known)
        with suppress(OSError):
            write_atomically(self._file, json.dumps(self._known).encode())
            books = list(self._file.parent.iterdir())
            if len(books) > 2 * _MOST_BOOKS:
                for one in sorted(books, key=lambda one: one.stat().st_mtime)[:-_MOST_BOOKS]:
                    one.unlink(missing_ok=True)
