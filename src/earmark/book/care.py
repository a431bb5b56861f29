"""Is a book whole, how is it made whole again, and how is it copied while others write?

`check` looks at everything: checksums and invariants of every version, the journal with each of its rows, what the
newest checkpoint has against what the journal says, the index against a scan. `repair` makes segments from the journal,
and where the journal itself is damaged, keeps what can be read of it from its beginning on; a checkpoint that goes
further adds what the journal has lost. It says what it did.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from earmark.book import folder as folders
from earmark.book import marks, opening, saving
from earmark.book.journal import FILES, JOURNAL, Journal, Stored, entry
from earmark.book.marks import Mark, WriterLock
from earmark.book.replay import Replay, empty, replayed, take
from earmark.book.rows import FEW, Part, Row, State, hashes_of, is_same, part_of_rows, part_of_types, state_at
from earmark.book.saving import Shelf
from earmark.engine.version import Version
from earmark.errors import EarmarkError, TableError
from earmark.keys.schema import LIFE
from earmark.language.words import counted
from earmark.segment.ids import Id
from earmark.segment.segment import DAMAGE

DAMAGED = "damaged"
"""The folder in which a repair leaves what it could not read."""
_MOVING = "moving-"
"""What the folder there is called until the new journal is in the place of the old one."""
_ATTEMPTS = 5
_COPIED_AT_ONCE = 16 << 20
"""Bytes of changes that a repair copies in one commit."""


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
            with closing(Mark(root, writable=False)) as mark:
                opening.check_mark(root, journal, mark, warn=False)
        else:
            yield f"{str(root)!r} has no {marks.HEAD}, which tells when the journal is cut; `earmark repair` writes it"
        stated = {checked.change: number for number, checked in versions.items()}
        walk = _Walk(journal)
        for number in walk.numbers():
            if number in stated and number >= opening.oldest(journal):
                version = stated.pop(number)
                yield from _disagreements(root, version, walk.replay.version(), versions[version].version)
        yield from (f"the journal of {str(root)!r} is damaged: {one}" for one in walk.unfound)
        last = walk.last
        for reach, version in stated.items():
            if reach is not None and reach > last:
                yield f"version {version} of {str(root)!r} goes up to change {reach}, the journal only to {last}"
    except EarmarkError as problem:
        yield str(problem)


class _Walk:
    """Reads the changes of a journal and repeats them, one after the other, and looks whether they are found by ids.

    Others may write more meanwhile.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.replay = Replay(empty(journal))
        self.last = journal.first - 1
        """The last one that could be read and repeated."""
        self.until = journal.last()
        self.unfound: list[str] = []
        """What is wrong with the index of ids, unless it is whole."""
        self._sums = journal.sums(journal.first, self.until)

    def numbers(self) -> Iterator[int]:
        """The number of each change, after it was repeated."""
        for change in self._journal.changes(self.last, self.until):
            take(self.replay, self._journal, change)
            if not self.unfound and not self._is_found(change):
                self.unfound = [f"change {change.number} is not found by its ids, or by others"]
            self.last = change.number
            yield change.number

    def _is_found(self, change: Stored) -> bool:
        if self._sums.agree(change.number, _parts(self._journal, change)):
            return True
        self._sums = self._journal.sums(change.number, self.until)  # something was erased meanwhile, perhaps
        now = self._journal.change(change.number)
        return now is None or self._sums.agree(now.number, _parts(self._journal, now))


def _parts(journal: Journal, change: Stored) -> list[Part]:
    """The parts of a change, with their hashes."""
    return [Part(form, body, hashes_of(form, body)) for form, body in journal.parts(change)]


def _states(version: Version) -> dict[Id, State]:
    found = {}
    for one in version.segments:
        for slot in one.living().tolist():
            found[one.segment.ids[slot]] = state_at(one.segment, version.schema, slot)
    return found


def _types(version: Version) -> dict[str, tuple[str, bool]]:
    """The types of a version's attributes, and whether they were declared."""
    known = version.with_free_types().schema
    return {one.name: (str(one.type), one.declared) for one in known if one.type is not None and one.name != LIFE}


def _disagreements(root: Path, number: int, said: Version, stored: Version) -> Iterator[str]:
    """Where a version has something else than the journal says."""
    damaged = f"version {number} of {str(root)!r} is damaged:"
    here, there = _states(stored), _states(said)
    for id in here.keys() | there.keys():
        if not is_same(here.get(id), there.get(id)):
            yield f"{damaged} it has another {id!r} than the journal"
            return
    if sorted(here, key=lambda id: int(here[id]["place"])) != sorted(there, key=lambda id: int(there[id]["place"])):
        yield f"{damaged} its subscriptions are in another order than the journal's"
    types, others = _types(stored), _types(said)
    for name in sorted(types.keys() | others.keys()):
        if types.get(name) != others.get(name):
            yield f"{damaged} its attribute {name!r} has another type than in the journal"
            return


def has_remains(root: Path) -> bool:
    """Whether a folder has anything of a book, damaged or not."""
    return any((root / name).exists() for name in (folders.MANIFEST, JOURNAL, folders.SEGMENTS, DAMAGED))


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
    try:
        lock = WriterLock(root)
        try:
            return _repair(root)
        finally:
            lock.release()
    except OSError as problem:
        raise TableError(f"{str(root)!r} cannot be repaired: {problem.strerror or problem}") from None


def _repair(root: Path) -> list[str]:
    done: list[str] = []
    _finish_replacing(root)
    checkpoint = _best_checkpoint(root)
    if checkpoint is not None and _is_of_versions(root, checkpoint):
        folders.write_manifest(root, folders.OF_VERSIONS, folders.new_name())
        return [f"{folders.MANIFEST} was written again; the versions are as they were"]
    site = root / f".building-{secrets.token_hex(8)}"
    site.mkdir()
    try:
        facts, last, is_whole = _salvage(root, site, 0 if checkpoint is None else checkpoint.reach, done)
        if facts is None and checkpoint is None:
            raise TableError(f"nothing of {str(root)!r} can be read: neither its journal nor a version")
        if facts is None:
            assert checkpoint is not None
            facts = opening.facts_of(folders.new_name(), checkpoint.index_name, {}, checkpoint.version.schema)
            reach = f"change {checkpoint.reach:,} of {max(checkpoint.reach, _acknowledged(root)):,}"
            done.append(
                "the journal cannot be read: a new one begins with the newest checkpoint, without history; that goes "
                f"up to {reach}"
            )
            journal = Journal.create(site, facts)
            journal.append([entry(1, _now(), None, "from a checkpoint", "import", opening.whole(checkpoint.version))])
            journal.close()
            last = 1
        elif checkpoint is not None and checkpoint.reach > max(last, facts.get("erased", 0) - 1):
            last = _append_rest(site, last, checkpoint.version, checkpoint.reach, done)
        if is_whole:
            done.append(f"the journal is whole: {counted(last, 'change')}")
        else:
            _replace_journal(root, site)
        folders.write_manifest(root, folders.OF_JOURNAL, str(facts["book"]))
        if not (root / marks.HEAD).exists():
            done.append(f"{marks.HEAD} was written again, with change {last:,}")
        marks.reset(root, last)
        _rebuild(root, facts, done)
    finally:
        shutil.rmtree(site, ignore_errors=True)
    return done


def _now() -> int:
    return time.time_ns() // 1000


class _Readable(NamedTuple):
    """A version that can be read, whatever the manifest says."""

    version: Version
    change: int | None
    """The last change that it has; None where it is no checkpoint of a journal."""
    index_name: str

    @property
    def reach(self) -> int:
        """The last change that it has, or 0."""
        return self.change or 0


def _best_checkpoint(root: Path) -> _Readable | None:
    """The readable version that goes furthest."""
    for number in reversed(folders.version_numbers(root)):
        with suppress(EarmarkError, OSError, *DAMAGE):
            record = folders.read_record(root, number)
            saving.verify(root, record, again=True)
            version, _ = saving.open_version(root, record)
            return _Readable(version.with_free_types(), record.get("change"), str(record["index"]))
    return None


def _is_of_versions(root: Path, checkpoint: _Readable) -> bool:
    """Whether a book whose manifest cannot be read was saved or published, so that it has no journal."""
    with suppress(TableError):
        folders.read_manifest(root)
        return False
    return checkpoint.change is None and not any((root / name).exists() for name in (JOURNAL, marks.HEAD, DAMAGED))


def _salvage(root: Path, site: Path, known: int, done: list[str]) -> tuple[dict[str, Any] | None, int, bool]:
    """Copy what can be read of a journal to a new one in `site`, unless it is whole: its facts, its last change.

    It should reach as far as a checkpoint, whose last change is `known`.
    """
    try:
        old = Journal.open(root)
    except TableError as problem:
        done.append(str(problem))
        return None, 0, False
    try:
        damages = old.integrity()
        last, wrong, unfound = _walked(old)
        damages += unfound
        stated = old.first - 1
        with suppress(TableError):
            stated = old.last()
        stated = max(stated, _acknowledged(root), known)
        facts = {name: value for name, value in old.facts.items() if name not in ("format", "layout")}
        if wrong is None and last >= stated and not damages:
            return facts, last, True
        new = Journal.create(site, {**facts, "erased": min(old.erased, last)})
        try:
            _copy(old, new, last)
        finally:
            new.close()
        if wrong is not None or last < stated:
            reason = wrong or "what came after it is gone"
            done.append(f"the journal was read up to change {last:,} of {stated:,}: {reason}")
        else:
            reason = f" ({unfound[0]})" if unfound else ""
            done.append(f"the journal was damaged{reason}, and is written again: its {last:,} changes could be read")
        return facts, last, False
    finally:
        old.close()


def _walked(journal: Journal) -> tuple[int, str | None, list[str]]:
    """The last change that can be read and repeated, what is wrong with the next, and what with the index of ids."""
    last = journal.first - 1
    try:
        walk = _Walk(journal)
        for number in walk.numbers():
            last = number
        walk.replay.version()
    except (EarmarkError, *DAMAGE) as problem:
        return last, str(problem), []
    return last, None, walk.unfound


def _acknowledged(root: Path) -> int:
    """The newest change that HEAD knows; 0 where that cannot be read."""
    with suppress(TableError, OSError, ValueError):
        mark = Mark(root, writable=False)
        try:
            return mark.read()[0]
        finally:
            mark.close()
    return 0


def _copy(old: Journal, new: Journal, last: int) -> None:
    """Copy changes up to one, many in a commit."""
    waiting: list[tuple[Stored, list[Part]]] = []
    size = 0
    for change in old.changes(old.first - 1, last):
        parts = _parts(old, change)
        waiting.append((change, parts))
        size += sum(len(part.body) for part in parts)
        if size > _COPIED_AT_ONCE:
            new.append(waiting)
            waiting, size = [], 0
    new.append(waiting)


def _append_rest(site: Path, last: int, version: Version, change: int, done: list[str]) -> int:
    """Add what a checkpoint has and the journal has lost, as one change."""
    journal = Journal.open(site)
    try:
        before, _, _ = replayed(empty(journal), journal, journal.first - 1)
        message = f"what changes {last + 1} to {change} did, from a checkpoint"
        parts = list(_difference(before, version))
        journal.append([entry(last + 1, _now(), None, message, "repair", parts)])
        done.append(f"a checkpoint has what changes {last + 1:,} to {change:,} did: they are now change {last + 1:,}")
        return last + 1
    finally:
        journal.close()


def _difference(before: Version, after: Version) -> Iterator[Part]:
    """The parts of a change that makes one version of another: what goes, the types, what comes.

    Types come after what goes, whose conditions they might not fit, and before what comes, whose conditions they type.
    """
    old, new = _states(before), _states(after)
    changed = [id for id in {**old, **new} if not _is_typed_same(old.get(id), new.get(id))]
    known, wanted = _types(before), _types(after)
    types = {name: type_ for name, (type_, is_declared) in wanted.items() if is_declared}
    retyped = {name: type_ for name, type_ in types.items() if name in known and known[name][0] != type_}
    declared = {name: type_ for name, type_ in types.items() if known.get(name) != wanted[name]}
    rows: list[Row] = [(id, old.get(id), new.get(id)) for id in changed]
    if declared:
        gone: list[Row] = [(id, state, None) for id, state, _ in rows if state is not None]
        rows = [(id, None, state) for id, _, state in rows if state is not None]
        yield from _parts_of_rows(gone)
        if retyped:
            yield part_of_types("retype", retyped)
        yield part_of_types("declare", declared)
    yield from _parts_of_rows(rows)


def _is_typed_same(one: State | None, other: State | None) -> bool:
    """Whether two states are the same, and mean the same."""
    if one is None or other is None:
        return one is other
    return is_same(one, other) and one.get("types") == other.get("types")


def _parts_of_rows(rows: list[Row]) -> Iterator[Part]:
    for first in range(0, len(rows), FEW):
        yield part_of_rows(rows[first : first + FEW])


def _replace_journal(root: Path, site: Path) -> None:
    """Put the new journal in the place of the old one, which goes to the folder `damaged`."""
    aside = root / DAMAGED / f"{_MOVING}{_now()}"
    aside.mkdir(parents=True)
    for name in FILES:  # the database first: where it is says how far this has come
        if (root / name).exists():
            (root / name).rename(aside / name)
    (site / JOURNAL).rename(root / JOURNAL)
    folders.flush_folder(root)
    _finish_replacing(root)


def _finish_replacing(root: Path) -> None:
    """Put back what a repair that was killed has moved away, unless the new journal is in its place already."""
    for aside in (root / DAMAGED).glob(f"{_MOVING}*"):
        if (root / JOURNAL).exists() or not (aside / JOURNAL).exists():
            aside.rename(aside.with_name(aside.name.removeprefix(_MOVING)))
            continue
        for name in reversed(FILES):
            if (aside / name).exists():
                (aside / name).rename(root / name)
        aside.rmdir()


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
