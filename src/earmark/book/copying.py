"""How is a book copied while others write to it, and how much of the disk does it take?

The newest checkpoint is copied first, then the journal, which has at least as much. HEAD is written for the copy.
"""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from earmark.book import folder as folders
from earmark.book import marks, opening
from earmark.book.journal import FILES, JOURNAL, Journal
from earmark.errors import TableError

_ATTEMPTS = 5


def backup(root: Path, path: Any) -> None:
    """Copy a book to a new folder: its newest checkpoint, then its journal, which has at least as much."""
    target = folders.root_of(path)
    if target.exists():
        raise TableError(f"{str(target)!r} exists; a backup goes to a new folder")
    _refuse_inside(target)
    site = target.with_name(f".building-{secrets.token_hex(8)}")
    try:
        site.mkdir(parents=True)
        for attempt in range(_ATTEMPTS):
            try:
                _copy_version(root, site)
                if _copy_journal(root, site):
                    break  # otherwise `retain` or `erase` has overtaken it
            except (FileNotFoundError, TableError):  # it was replaced meanwhile
                if attempt + 1 == _ATTEMPTS:
                    raise
        else:  # the journal has everything
            _clear(site)
            _copy_journal(root, site)
        shutil.copyfile(root / folders.MANIFEST, site / folders.MANIFEST)
        folders.flush_tree(site)
        site.rename(target)
        folders.flush_folder(target.parent)
    except OSError as problem:
        raise TableError(f"the backup cannot be written to {str(target)!r}: {problem.strerror or problem}") from None
    finally:
        shutil.rmtree(site, ignore_errors=True)


def _refuse_inside(target: Path) -> None:
    """Raise where a folder would be inside a book."""
    for folder in target.resolve().parents:
        if folders.is_book(folder):
            raise TableError(f"{str(target)!r} is inside the book {str(folder)!r}; a backup goes to a folder outside")


def _copy_version(root: Path, site: Path) -> None:
    """Copy the newest version, if there is one."""
    _clear(site)
    if not (root / folders.CURRENT).exists():
        return
    for name in (folders.MANIFEST, folders.CURRENT):
        shutil.copyfile(root / name, site / name)
    number = folders.current_version(site)
    record = folders.read_record(root, number)
    for file in folders.files_of(record):
        (site / file).parent.mkdir(exist_ok=True)
        shutil.copyfile(root / file, site / file)
    shutil.copytree(folders.version_folder(root, number), folders.version_folder(site, number))


def _clear(site: Path) -> None:
    for old in site.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()


def _copy_journal(root: Path, site: Path) -> bool:
    """Copy the journal, if there is one; whether the changes that it has can follow the copied version."""
    if not folders.has_journal(root):
        return True
    journal = Journal.open(root, readonly=True)
    try:
        marks.reset(site, journal.copy_to(site / JOURNAL))
        journal.refresh_facts()
        if opening.oldest(journal) == 0 or not (site / folders.CURRENT).exists():
            return True
        change = folders.read_record(site, folders.current_version(site)).get("change")
        return isinstance(change, int) and change >= opening.oldest(journal)
    finally:
        journal.close()


def disk_use(root: Path) -> dict[str, int]:
    """Bytes of a book on disk: of its segments, and of its journal, which is history and the newest part, the WAL."""

    def size(file: Path) -> int:
        with suppress(OSError):  # a checkpoint may remove it just now
            return file.stat().st_size
        return 0

    segments = sum(size(file) for kind in (folders.SEGMENTS, folders.KEYS) for file in (root / kind).glob("*"))
    history, newest = size(root / JOURNAL), size(root / FILES[1])
    return {"segments": segments, "journal": history + newest, "history": history, "wal": newest}
