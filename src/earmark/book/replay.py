"""What does a book hold after the changes of a journal?

    version as of change 40  +  changes 41 … 57   ->   version as of change 57

Changes in a row are taken together: of each id only the last state counts, so a thousand updates of one subscription
cost one addition. A table of many rows, and a change of types, end such a run.

**Invariant.** The subscriptions, their order and their types are those that the writer had. Keys and segments may be
others: a row carries what it needs (rows.py), not how it was keyed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from earmark.book.journal import STARTS, Journal, Stored
from earmark.book.rows import ADDED, REMOVED, ROWS, TYPES, State, read_rows, read_types, subscription_of, table_in
from earmark.engine import updates
from earmark.engine.version import Place, Version
from earmark.errors import EarmarkError, TableError, refuse, require
from earmark.keys.schema import Draft, Schema, attribute_type
from earmark.segment import arrow
from earmark.segment.builder import id_problems, prepare
from earmark.segment.ids import Id
from earmark.segment.segment import DAMAGE, Segment


def empty(journal: Journal) -> Version:
    """The book before its first change."""
    facts = journal.facts
    settings = {"strict": bool(facts["strict"]), "nan_is_null": bool(facts["nan_is_null"]), "time": facts["time"]}
    return Version.empty(Schema(facts["zone"], **settings))


class Replay:
    """Applies changes to a version, one after the other."""

    def __init__(self, version: Version) -> None:
        self._version = version
        self._states: dict[Id, State | None] = {}
        self._next = version.next_sequence

    def restart(self, version: Version) -> None:
        """Go on from another version."""
        self._version, self._states = version, {}

    def take(self, form: str, body: bytes) -> None:
        """Apply a part of a change."""
        if form == ROWS:
            for id, before, after in read_rows(body):
                self._states[id] = after
                self._next = max([self._next, *(state["place"] + 1 for state in (before, after) if state is not None)])
            return
        self._settle()
        if form == TYPES:
            self._version = _typed(self._version, *read_types(body))
        elif form == ADDED:
            self._append(arrow.prepare_native(self._version.schema, table_in(body)).segment(0))
        else:
            require(form == REMOVED, f"a part of a change has the form {form[:20]!r}")
            ids = table_in(body).column("id").to_pylist()
            self._version = self._version.removed(self._places(ids))
        self._next = max(self._next, self._version.next_sequence)

    def version(self) -> Version:
        """The version after everything that was taken."""
        self._settle()
        return replace(self._version, next_sequence=max(self._next, self._version.next_sequence))

    def _places(self, ids: Iterable[Id]) -> list[Place]:
        return [place for id in ids if (place := self._version.find(id)) is not None]

    def _settle(self) -> None:
        """Put what was taken of single rows into the version."""
        states, self._states = self._states, {}
        if not states:
            return
        if places := self._places(states):
            self._version = self._version.removed(places)
        living = [(state["place"], id, state) for id, state in states.items() if state is not None]
        if not living:
            return
        living.sort(key=lambda one: one[0])
        draft = Draft(self._version.schema)
        for _, id, state in living:
            _teach(draft, id, state)
        items: list[Any] = [subscription_of(id, state) for _, id, state in living]
        prepared = prepare(draft.commit(), items, numbered=False)
        self._append(prepared.segment(np.array([place for place, _, _ in living], np.int64)))

    def _append(self, segment: Segment) -> None:
        ids = segment.ids
        if len(ids) and self._version.id_type not in (None, type(ids[0])):  # the others may be newer, in an undo
            refuse(id_problems([ids[0]], [None], self._version))
        self._version = self._version.appended(segment)


def _teach(draft: Draft, id: Id, state: State) -> None:
    """Let a schema know the types that a state has noted."""
    for name, type_ in state.get("types", {}).items():
        attribute = draft.get(name)
        if attribute.type is None:
            draft.set_type(attribute, attribute_type(type_), f"subscription {id!r}")


def _typed(version: Version, kind: str, types: Any) -> Version:
    if kind == "retype":
        known = {name: type_ for name, type_ in types.items() if name in version.schema.by_name}
        for name, type_ in known.items():
            version = updates.retyped(version, name, type_)
        types = {name: type_ for name, type_ in types.items() if name not in known}  # their users were erased
    draft = Draft(version.schema)
    draft.declare(types)
    return version.with_schema(draft.commit())


def replayed(version: Version, journal: Journal, since: int, until: int | None = None) -> tuple[Version, int, int]:
    """The version after the changes of a journal; the number of the last one; how many rows they had."""
    replay, last, rows = Replay(version), since, 0
    for change in journal.changes(since, until):
        take(replay, journal, change)
        last, rows = change.number, rows + change.rows
    try:
        return replay.version(), last, rows
    except (EarmarkError, *DAMAGE) as problem:
        raise _wrong(journal, last, problem) from None


def take(replay: Replay, journal: Journal, change: Stored) -> None:
    """Apply a change of a journal. One that says how the book was takes the place of all that came before it."""
    if change.kind in STARTS:
        replay.restart(empty(journal))
    for form, body in journal.parts(change):
        try:
            replay.take(form, body)
        except TableError:
            raise
        except (EarmarkError, *DAMAGE) as problem:
            raise _wrong(journal, change.number, problem) from None


def _wrong(journal: Journal, number: int, problem: BaseException) -> TableError:
    reason = str(problem) or type(problem).__name__
    return TableError(f"change {number} of the journal of {str(journal.root)!r} cannot be repeated: {reason}")
