"""Is a book whole, how is it made whole again, and how is it copied while others write?

`check` looks at everything: checksums and invariants of every version, the journal with each of its rows, what the
newest checkpoint has against what the journal says, the index against a scan. `repair` makes segments from the journal,
and where the journal itself is damaged, keeps what can be read of it from its beginning on; a checkpoint that goes
further adds what the journal has lost. It says what it did. `backup` copies the newest checkpoint, then the journal.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from earmark.book import folder as folders
from earmark.book import marks, opening, saving
from earmark.book.journal import FILES, JOURNAL, Journal, Stored, entry
from earmark.book.marks import Mark, WriterLock
from earmark.book.replay import Replay, empty, replayed, take
from earmark.book.rows import FEW, Part, Row, State, hashes_of, is_same, part_of_rows, state_at
from earmark.book.saving import Shelf
from earmark.engine.version import Version
from earmark.errors import EarmarkError, TableError
from earmark.language.words import counted
from earmark.segment.ids import Id
from earmark.segment.segment import DAMAGE

DAMAGED = "damaged"
"""The folder in which a repair leaves what it could not read."""
_ATTEMPTS = 5


# --- checking ------------------------------------------------------------------------------------------------


def check(path: Any) -> list[str]:
    """What is wrong with a book, one sentence each; nothing where it is whole. O(size), and reads every byte."""
    root = folders.root_of(path)
    problems: list[str] = []
    try:
        manifest = folders.read_manifest(root)
    except TableError as problem:
        return [str(problem)]
    versions = _versions(root, problems)
    if manifest["truth"] == folders.OF_JOURNAL:
        try:
            journal = Journal.open(root, readonly=True)
        except TableError as problem:
            return [*problems, str(problem)]
        try:
            problems += _check_journal(root, journal, versions)
        finally:
            journal.close()
    return problems


class _Checked(NamedTuple):
    """A version that could be opened, and the last change that it has, where it is a checkpoint."""

    version: Version
    change: int | None


def _versions(root: Path, problems: list[str]) -> dict[int, _Checked]:
    """The versions that can be opened, by number; what is wrong with the others is added to `problems`.

    A writer may make new ones and remove others meanwhile.
    """
    found: dict[int, _Checked] = {}
    seen: set[int] = set()
    for _ in range(_ATTEMPTS):
        numbers = set(folders.version_numbers(root))
        if (root / folders.CURRENT).exists() or not folders.has_journal(root):
            try:
                numbers.add(folders.current_version(root))
            except TableError as problem:
                problems.append(str(problem))
        for number in sorted(numbers - seen):
            seen.add(number)
            try:
                found[number] = _checked(root, number)
            except EarmarkError as problem:
                if not _is_superseded(root, number):
                    problems.append(str(problem))
        if found or problems:
            break
    return found


def _checked(root: Path, number: int) -> _Checked:
    """A version, if it is whole."""
    record = folders.read_record(root, number)
    saving.verify(root, record, again=True)
    version, _, shelf = saving.load(root, number, True, None)
    saving.verify_answers(version, root)
    return _Checked(version, shelf.change)


def _is_superseded(root: Path, number: int) -> bool:
    """Whether a version is gone because there is a newer one."""
    with suppress(TableError):
        return number not in folders.version_numbers(root) and number < folders.current_version(root)
    return False


def _check_journal(root: Path, journal: Journal, versions: dict[int, _Checked]) -> Iterator[str]:
    """What is wrong with a journal, and where versions say something else."""
    try:
        yield from (f"the journal of {str(root)!r} is damaged: {one}" for one in journal.integrity())
        opening.check_same_book(root, journal)
        if (root / marks.HEAD).exists():
            opening.check_mark(root, journal, Mark(root, writable=False), warn=False)
        stated = {checked.change: number for number, checked in versions.items()}
        replay, last, until = Replay(empty(journal)), journal.first - 1, journal.last()
        known = journal.hashes()  # others may write more meanwhile
        for change in journal.changes(last, until):
            take(replay, journal, change)
            if not {hash for part in _parts(journal, change) for hash in part.hashes} <= known.get(
                change.number, set()
            ):
                yield f"the journal of {str(root)!r} is damaged: change {change.number} is not found by its ids"
            last = change.number
            if last in stated:
                number = stated.pop(last)
                yield from _disagreements(root, number, replay.version(), versions[number].version)
        for change_number, number in stated.items():
            if change_number is not None and change_number > last:
                yield f"version {number} of {str(root)!r} goes up to change {change_number}, the journal only to {last}"
    except EarmarkError as problem:
        yield str(problem)


def _parts(journal: Journal, change: Stored) -> list[Part]:
    """The parts of a change, with their hashes."""
    return [Part(form, body, hashes_of(form, body)) for form, body in journal.parts(change)]


def _states(version: Version) -> dict[Id, State]:
    found = {}
    for one in version.segments:
        for slot in one.living().tolist():
            found[one.segment.ids[slot]] = state_at(one.segment, version.schema, slot)
    return found


def _disagreements(root: Path, number: int, said: Version, stored: Version) -> Iterator[str]:
    """Where a version has something else than the journal says."""
    here, there = _states(stored), _states(said)
    for id in here.keys() | there.keys():
        if not is_same(here.get(id), there.get(id)):
            yield f"version {number} of {str(root)!r} is damaged: it has another {id!r} than the journal"
            return
    if sorted(here, key=lambda id: int(here[id]["place"])) != sorted(there, key=lambda id: int(there[id]["place"])):
        yield f"version {number} of {str(root)!r} is damaged: its subscriptions are in another order than the journal's"


def has_remains(root: Path) -> bool:
    """Whether a folder has anything of a book, damaged or not."""
    return any((root / name).exists() for name in (folders.MANIFEST, JOURNAL, folders.SEGMENTS))


# --- repairing -----------------------------------------------------------------------------------------------


def repair(path: Any) -> list[str]:
    """Make a book whole from what can be read; returns what was done, one sentence each."""
    root = folders.root_of(path).resolve()
    if not root.is_dir():
        raise TableError(f"{str(root)!r} is not a folder")
    if not has_remains(root):
        raise TableError(f"{str(root)!r} is not an earmark book, and there is nothing to repair it from")
    with suppress(TableError):
        if not folders.has_journal(root):
            raise EarmarkError(f"the book {str(root)!r} has no journal to repair it from: save or publish it again")
    lock = WriterLock(root)
    try:
        return _repair(root)
    finally:
        lock.release()


def _repair(root: Path) -> list[str]:
    done: list[str] = []
    checkpoint = _best_checkpoint(root)
    site = root / f".building-{secrets.token_hex(8)}"
    site.mkdir()
    try:
        facts, last, complete = _salvage(root, site, done)
        if facts is None and checkpoint is None:
            raise TableError(f"nothing of {str(root)!r} can be read: neither its journal nor a version")
        if facts is None:
            assert checkpoint is not None
            facts = opening.facts_of(folders.new_name(), checkpoint[2], {}, checkpoint[0].schema)
            reach = f"change {checkpoint[1]:,} of {max(checkpoint[1], _acknowledged(root)):,}"
            done.append(
                "the journal cannot be read: a new one begins with the newest checkpoint, without history; that goes "
                f"up to {reach}"
            )
            journal = Journal.create(site, facts)
            journal.append([entry(1, _now(), None, "from a checkpoint", "import", opening.whole(checkpoint[0]))])
            journal.close()
            last = 1
        elif checkpoint is not None and checkpoint[1] > last:
            last = _append_rest(site, last, checkpoint[0], checkpoint[1], done)
        if not complete:
            _replace_journal(root, site)
        elif not done:
            done.append(f"the journal is whole: {counted(last, 'change')}")
        folders.write_manifest(root, folders.OF_JOURNAL, str(facts["book"]))
        marks.reset(root, last)
        _rebuild(root, facts, done)
    finally:
        shutil.rmtree(site, ignore_errors=True)
    return done


def _now() -> int:
    return time.time_ns() // 1000


def _best_checkpoint(root: Path) -> tuple[Version, int, str] | None:
    """The readable version that goes furthest: with its last change, and the name of its index."""
    for number in reversed(folders.version_numbers(root)):
        with suppress(EarmarkError, OSError, *DAMAGE):
            saving.verify(root, folders.read_record(root, number), again=True)
            version, index, shelf = saving.load(root, number, True, None)
            return version, shelf.change or 0, index
    return None


def _salvage(root: Path, site: Path, done: list[str]) -> tuple[dict[str, Any] | None, int, bool]:
    """Copy what can be read of a journal to a new one in `site`: its facts, its last change, whether that is all."""
    try:
        old = Journal.open(root)
    except TableError as problem:
        done.append(str(problem))
        return None, 0, False
    try:
        broken = bool(old.integrity())
        facts = {name: value for name, value in old.facts.items() if name not in ("format", "layout")}
        new = Journal.create(site, facts)
        try:
            last, wrong = _copy(old, new)
        finally:
            new.close()
        stated = old.first - 1
        with suppress(TableError):
            stated = old.last()
        stated = max(stated, _acknowledged(root))
        if wrong is not None or last < stated:
            reason = wrong or "what came after it is gone"
            done.append(f"the journal was read up to change {last:,} of {stated:,}: {reason}")
        elif broken:
            done.append(f"the journal was damaged, and is written again: its {last:,} changes could be read")
        return facts, last, not broken and wrong is None and last >= stated
    finally:
        old.close()


def _acknowledged(root: Path) -> int:
    """The newest change that HEAD knows; 0 where that cannot be read."""
    with suppress(TableError, OSError, ValueError):
        mark = Mark(root, writable=False)
        try:
            return mark.read()[0]
        finally:
            mark.close()
    return 0


def _copy(old: Journal, new: Journal) -> tuple[int, str | None]:
    """Copy changes as long as they can be read and repeated; the number of the last, and what was wrong then."""
    last, replay = old.first - 1, Replay(empty(old))
    try:
        for change in old.changes(last):
            parts = _parts(old, change)
            take(replay, old, change)
            new.append([(change, parts)])
            last = change.number
        replay.version()
    except (EarmarkError, *DAMAGE) as problem:
        return last, str(problem)
    return last, None


def _append_rest(site: Path, last: int, version: Version, change: int, done: list[str]) -> int:
    """Add what a checkpoint has and the journal has lost, as one change."""
    journal = Journal.open(site)
    try:
        before, _, _ = replayed(empty(journal), journal, journal.first - 1)
        old, new = _states(before), _states(version)
        rows: list[Row] = [
            (id, old.get(id), new.get(id)) for id in {**old, **new} if not is_same(old.get(id), new.get(id))
        ]
        parts = [part_of_rows(rows[i : i + FEW]) for i in range(0, len(rows), FEW)]
        message = f"what changes {last + 1} to {change} did, from a checkpoint"
        journal.append([entry(last + 1, _now(), None, message, "repair", parts)])
        done.append(f"a checkpoint has what changes {last + 1:,} to {change:,} did: they are now change {last + 1:,}")
        return last + 1
    finally:
        journal.close()


def _replace_journal(root: Path, site: Path) -> None:
    """Put the new journal in the place of the old one, which goes to the folder `damaged`."""
    aside = root / DAMAGED / f"{_now()}"
    aside.mkdir(parents=True)
    for name in FILES:
        if (root / name).exists():
            (root / name).rename(aside / name)
    (site / JOURNAL).rename(root / JOURNAL)
    folders.flush_folder(root)


def remove_damaged(root: Path) -> None:
    """Remove what repairs have put aside."""
    shutil.rmtree(root / DAMAGED, ignore_errors=True)


def _rebuild(root: Path, facts: dict[str, Any], done: list[str]) -> None:
    """Write the newest version again, from the journal, and remove the others; its number goes on from theirs."""
    journal = Journal.open(root)
    try:
        version, last, _ = replayed(empty(journal), journal, journal.first - 1)
    finally:
        journal.close()
    try:
        newest = folders.newest_or_none(root) or 0
    except TableError:
        (root / folders.CURRENT).unlink()
        newest = 0
    if version.live or newest or folders.version_numbers(root) or folders.pinned(root):
        saving.save(root, saving.indexed(version, str(facts["index"])), str(facts["index"]), Shelf(), last)
        with folders.alone_with(root):
            newest = folders.current_version(root)
            for number in folders.version_numbers(root):
                if number != newest:
                    shutil.rmtree(folders.version_folder(root, number), ignore_errors=True)
            folders.remove_others(root, set())
    live = counted(version.live, "subscription")
    done.append(f"the segments were made from the journal: {live} as of change {last:,}")
    if pins := folders.remove_pins(root, newest):
        named = ", ".join(f"version {number} ({owner})" for number, owner in pins)
        done.append(f"pins were removed, since their versions are gone: {named}")


# --- copying -------------------------------------------------------------------------------------------------


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
                    break  # otherwise `retain` has overtaken it; at the last attempt, opening makes do without it
            except FileNotFoundError:  # it was replaced meanwhile
                if attempt + 1 == _ATTEMPTS:
                    raise
        shutil.copyfile(root / folders.MANIFEST, site / folders.MANIFEST)
        folders.flush_tree(site)
        site.rename(target)
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
    for old in site.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
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


def _copy_journal(root: Path, site: Path) -> bool:
    """Copy the journal, if there is one; whether its history still has what the copied version goes up to."""
    if not folders.has_journal(root):
        return True
    journal = Journal.open(root, readonly=True)
    try:
        journal.copy_to(site / JOURNAL)
        journal.refresh_facts()
        if journal.first == 1 or not (site / folders.CURRENT).exists():
            return True
        change = folders.read_record(site, folders.current_version(site)).get("change")
        return isinstance(change, int) and change >= journal.first
    finally:
        journal.close()


def disk_use(root: Path) -> dict[str, int]:
    """Bytes of a book on disk: of its segments, and of its journal, which is history and the newest part, the WAL."""

    def size(files: Any) -> int:
        return sum(file.stat().st_size for file in files if file.is_file())

    segments = size(file for kind in (folders.SEGMENTS, folders.KEYS) for file in (root / kind).glob("*"))
    history, newest = size([root / JOURNAL]), size([root / FILES[1]])
    return {"segments": segments, "journal": history + newest, "history": history, "wal": newest}
