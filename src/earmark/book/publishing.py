"""How does a version become the newest of its book?

    with publishing(root) as site:          .building-9a1b…/     made, locked, cleared when it is over
        …fill site.folder…                  .building-9a1b…/segments/3f08c1…  version.json
        site.commit(record)                 segments/3f08c1…  versions/00000002/  CURRENT

**Invariant.** A folder under versions/ is complete: it got there by one rename, after everything it is made of was
flushed and in its place. CURRENT is replaced in one step, under LOCK, and only by a writer whose parent it still names:
of two at once one wins, and the other gets `Conflict` and leaves nothing. A writer killed before that leaves files that
no version lists, which the next removal of versions takes away, or a complete version that nothing points at; the next
number is the one after it.

Where the file system has no locks, two writers still cannot both win: the number is the parent's plus one, and of two
renames to one name the second fails.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from earmark.book import folder as folders
from earmark.book.folder import CURRENT, FORMAT, FULL, KEYS, LAST, LAYOUT, MANIFEST, OF_VERSIONS, RECORD, SEGMENTS
from earmark.book.segments import Record
from earmark.errors import TableError


class Conflict(TableError):
    """Someone else published in the meantime; nothing of this publication remains."""


@dataclass(frozen=True, slots=True)
class Building:
    """A version in the making: fill `folder`, then `commit`.

    New files of segments and keys go to the folders of these names in it.
    """

    root: Path
    folder: Path
    parent: int | None

    def new_file(self, kind: str) -> Path:
        """The path of a new file of segments or keys."""
        (self.folder / kind).mkdir(exist_ok=True)
        return self.folder / kind / secrets.token_hex(8)

    def commit(self, record: Record, lock: bool = True) -> dict[str, Any]:
        """Make this the newest version, or raise `Conflict` when the parent no longer is; returns its record.

        Without `lock` the caller holds the book's.
        """
        with folders.alone_with(self.root) if lock else nullcontext(True) as alone:
            self.check_parent()
            known = (*folders.version_numbers(self.root), *folders.pinned(self.root)) if alone else ()
            number = max(self.parent or 0, *known, 0) + 1
            if number > LAST:
                raise TableError(f"the book {str(self.root)!r} has no number left for another version")
            body = {"format": FORMAT, "layout": LAYOUT, **record, "version": number, "parent": self.parent}
            body["created"] = datetime.now(UTC).isoformat(timespec="milliseconds")
            body["base"] = number if record["kind"] == FULL else record["base"]
            made = folders.sealed(body)
            moved: list[Path] = []
            try:
                self._move(made, moved)
            except BaseException:
                now = None
                with suppress(TableError):
                    now = folders.newest_or_none(self.root)
                if now != number:  # else it was interrupted when all was done
                    for path in reversed(moved):
                        folders.remove(self.root, path)
                raise
            return made

    def _move(self, record: dict[str, Any], moved: list[Path]) -> None:
        """Put the version in its place, and point at it; what was moved is noted in `moved`."""
        self._move_files(record, moved)
        folders.write_record(self.folder / RECORD, record)
        folders.flush_tree(self.folder)
        target = folders.version_folder(self.root, record["version"])
        target.parent.mkdir(exist_ok=True)
        try:
            self.folder.rename(target)
        except OSError as problem:
            if problem.errno in (errno.EEXIST, errno.ENOTEMPTY):
                raise self.conflict(record["version"]) from None
            raise
        moved.append(target)
        folders.flush_folder(target.parent)
        body = {"format": FORMAT, "layout": LAYOUT, "version": record["version"], "record": record["checksum"]}
        folders.replace_record(self.root / CURRENT, folders.sealed(body))

    def _move_files(self, record: Record, moved: list[Path]) -> None:
        """Put the new files of segments and keys in their places, and see that the others are there."""
        for kind in (SEGMENTS, KEYS):
            (self.root / kind).mkdir(exist_ok=True)
            new = self.folder / kind
            if new.is_dir():
                for file in list(new.iterdir()):
                    moved.append(self.root / kind / file.name)
                    file.rename(moved[-1])
                new.rmdir()
                folders.flush_folder(self.root / kind)
        for file in folders.files_of(record):
            if not (self.root / file).is_file():
                raise self.conflict(folders.newest_or_none(self.root))

    def check_parent(self) -> None:
        """Raise `Conflict` when the parent is no longer the newest."""
        now = folders.newest_or_none(self.root)
        if now != self.parent:
            raise self.conflict(now)

    def conflict(self, now: int | None) -> Conflict:
        """The error for the writer that came second."""
        before = "when there was no version" if self.parent is None else f"on version {self.parent}"
        return Conflict(
            f"version {now} of {str(self.root)!r} was published while this one, begun {before}, was being made; "
            "nothing of it remains: open the book again and repeat it"
        )


def prepare_root(root: Path, truth: str = OF_VERSIONS) -> None:
    """Make a folder a book unless it is one, and remove what a killed writer left; TableError where it is foreign."""
    folders.refuse_foreign(root)
    folders.make_root(root)
    if not (root / MANIFEST).exists():
        folders.write_manifest(root, truth, folders.new_name())
    elif truth == OF_VERSIONS and folders.has_journal(root):
        raise TableError(
            f"the truth of the book {str(root)!r} is its journal, so nothing is saved or published there; "
            "change it through earmark.open or `earmark book load`, or choose another folder"
        )
    folders.clear_abandoned(root)


@contextmanager
def building(root: Path, parent: int | None) -> Iterator[Building]:
    """A folder to make a version in; gone afterwards, unless it became one. The root is a book already."""
    name = secrets.token_hex(8)
    unheld, folder = root / f".new-{name}", root / f".building-{name}"
    unheld.mkdir()
    held = os.open(unheld, os.O_RDONLY)
    try:
        with suppress(OSError):  # a lock says that someone is at work here
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unheld.rename(folder)  # only now, so that a clean-up never finds it without its lock
        yield Building(root, folder, parent)
    finally:
        os.close(held)
        for left in (unheld, folder):
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def publishing(root: Path, parent: int | None = None) -> Iterator[Building]:
    """A folder to make the next version in, of the newest version unless a parent is given.

    What goes wrong with the disk is one sentence.
    """
    try:
        prepare_root(root)
        with building(root, folders.newest_or_none(root) if parent is None else parent) as site:
            yield site
    except OSError as problem:
        raise TableError(f"nothing can be published to {str(root)!r}: {problem.strerror or problem}") from None
