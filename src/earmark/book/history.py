"""What was a subscription, who changed it, and what has changed since?

    changes     1 add a    2 update a    3 remove a
    history(a)  None → A1  A1 → A2       A2 → None          what each change found and what it left

**Invariant.** The states of an id follow each other: what a change found is what the one before it left. Where they do
not, a row is missing, and that is an error instead of a history with a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from earmark.book.journal import STARTS, Journal, JournalError, Stored
from earmark.book.rows import (
    ADDED,
    REMOVED,
    ROWS,
    Part,
    State,
    hashes_of,
    is_same,
    part_of_rows,
    read_rows,
    rows_in,
    state_at,
)
from earmark.book.rows import subscription_of as given
from earmark.engine.version import Version
from earmark.errors import EarmarkError
from earmark.keys.schema import Schema
from earmark.segment.builder import Subscription
from earmark.segment.ids import Id

ERASE, RETAIN = "erase", "retain"
States: TypeAlias = dict[Id, list[State | None]]
"""By id, the state before and after."""


class Difference(NamedTuple):
    """A subscription before and after; None where there was none."""

    id: Id
    before: Subscription | None
    after: Subscription | None


@dataclass(frozen=True)
class Change:
    """One change of a book. All that it did is in `differences`."""

    number: int
    time: datetime
    author: str | None
    message: str | None
    kind: str
    """What was called: add, update, upsert, remove, declare, retype, change, undo, erase; import, retain."""
    rows: int
    """How many subscriptions it is about."""
    _read: Callable[[], list[Difference]] = field(repr=False, compare=False, default=list)

    @property
    def differences(self) -> list[Difference]:
        """What it did to which subscription. O(rows), read from the journal."""
        return self._read()


class Revision(NamedTuple):
    """What a change did to one subscription."""

    number: int
    time: datetime
    author: str | None
    message: str | None
    kind: str
    before: Subscription | None
    after: Subscription | None


def described(stored: Stored, read: Callable[[], list[Difference]]) -> Change:
    """A change as users see it."""
    return Change(stored.number, stored.moment, stored.author, stored.message, stored.kind, stored.rows, _read=read)


def check_text(text: Any, what: str) -> None:
    """Raise where an author or a message is not one that can be kept."""
    if text is None:
        return
    if not isinstance(text, str) or len(text) > 10_000:
        raise EarmarkError(f"expected {what} of at most 10,000 characters, got {text!r:.100}")
    if any("\ud800" <= one <= "\udfff" for one in text):
        raise EarmarkError(f"expected {what} without lone surrogates, which UTF-8 does not have, got {text!r:.100}")


def number_of(journal: Journal, moment: int | datetime, what: str = "a change") -> int:
    """The number of a change, given by it or by a time: the last one that was made then."""
    if isinstance(moment, datetime):
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return journal.at_time((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)
    if isinstance(moment, bool) or not isinstance(moment, int):
        raise EarmarkError(f"expected the number of {what} or a datetime, got {moment!r}")
    last = journal.last()
    if not 0 <= moment <= last:
        raise EarmarkError(f"there is no change {moment}; the last one is {last}")
    return moment


def check_kept(journal: Journal, number: int) -> None:
    """Raise where history does not reach back to the state after a change."""
    first = journal.first
    if number < first - (first == 1):
        raise EarmarkError(f"what the book was at change {number} was forgotten; its history begins at change {first}")


def check_listed(journal: Journal, number: int) -> None:
    """Raise where a change was forgotten after it was listed."""
    if number < journal.first:
        raise EarmarkError(f"change {number} was forgotten meanwhile; the history begins at change {journal.first}")


def states_of(journal: Journal, id: Id, schema: Schema) -> Iterator[tuple[Stored, State | None, State | None]]:
    """The changes of one id, with what each found and left."""
    known: State | None = None
    for number, parts in journal.touching(id).items():
        change = journal.change(number)
        if change is None:
            raise JournalError(f"the journal of {str(journal.root)!r} is damaged: change {number} is missing")
        rows = [row for form, body in journal.parts(change, parts) for row in rows_in(form, body, schema, id)]
        if not rows:
            continue  # another id of the same hash
        before, after = rows[0][1], rows[-1][2]
        if change.kind not in (*STARTS, ERASE) and not is_same(before, known):
            where = f"the history of {id!r} has a gap before change {number}"
            raise JournalError(f"the journal of {str(journal.root)!r} is damaged: {where}")
        known = after
        yield change, before, after


def history(journal: Journal, id: Id, version: Version, number: int | None) -> list[Revision]:
    """The changes of one id, the oldest first.

    `number` is the last change that the version has, to compare it with what the changes until then lead to. The
    journal may have newer ones; where those replaced older history, or the number is None, nothing is compared.
    """
    found, last = [], None
    is_comparable = number is not None and (journal.first == 1 or journal.first <= number)
    for change, before, after in states_of(journal, id, version.schema):
        about = (change.number, change.moment, change.author, change.message, change.kind)
        found.append(Revision(*about, given(id, before), given(id, after)))
        if number is None or change.number <= number:
            last = after
        elif change.kind in (*STARTS, ERASE):
            is_comparable = False
    if is_comparable and not is_same(last, state_in(version, id)):
        raise JournalError(
            f"the journal of {str(journal.root)!r} is damaged: the history of {id!r} does not lead to what it is"
        )
    return found


def state_in(version: Version, id: Id) -> State | None:
    """What a subscription is in a version."""
    place = version.find(id)
    return None if place is None else state_at(version.segments[place.number].segment, version.schema, place.slot)


def net(journal: Journal, since: int, until: int, schema: Schema) -> States:
    """By id, the state after one change and that after another, of what has changed in between. O(rows)."""
    found: States = {}
    for change in journal.changes(since, until):
        for form, body in journal.parts(change):
            for id, before, after in rows_in(form, body, schema):
                found.setdefault(id, [before, None])[1] = after
    return found


def differences(states: States) -> list[Difference]:
    """States as users see them, without those that are the same."""
    return [
        Difference(id, given(id, before), given(id, after))
        for id, (before, after) in states.items()
        if not is_same(before, after)
    ]


def diff(journal: Journal, one: int, other: int, schema: Schema) -> list[Difference]:
    """What is different in the state after one change from that after another, by the order of changes."""
    low, high = min(one, other), max(one, other)
    check_kept(journal, low)
    found = differences(net(journal, low, high, schema))
    return found if one <= other else [Difference(d.id, d.after, d.before) for d in found]


def undoable(journal: Journal, number: int) -> Stored:
    """A change that can be undone, or an error that says why it cannot."""
    stored = journal.change(number_of(journal, number))
    oldest = journal.change(journal.first)
    if number == 0:
        reason = "there is no change 0"
    elif number <= journal.first and oldest is not None and oldest.kind == RETAIN:
        reason = f"it was forgotten by `retain`; changes after {journal.first} can be"
    elif stored is None:
        raise JournalError(f"the journal of {str(journal.root)!r} is damaged: change {number} is missing")
    elif stored.kind == ERASE:
        reason = "it erased a subscription, of which nothing is left"
    elif stored.kind in STARTS:
        reason = f"it is what the book was when its history began (its kind is {stored.kind!r})"
    else:
        return stored
    raise EarmarkError(f"change {number} cannot be undone: {reason}")


def inverse(journal: Journal, change: Stored) -> list[Part]:
    """The parts of a change that takes another one back."""
    forms = {ADDED: REMOVED, REMOVED: ADDED}
    parts: list[Part] = []
    for form, body in reversed(list(journal.parts(change))):
        if form == ROWS:
            parts.append(part_of_rows([(id, after, before) for id, before, after in reversed(read_rows(body))]))
        elif form in forms:
            parts.append(Part(forms[form], body, hashes_of(form, body)))
        else:
            raise EarmarkError(
                f"change {change.number} gave types to attributes, which is not undone; retype() gives them others"
            )
    if not change.rows:
        raise EarmarkError(f"change {change.number} cannot be undone: all that it changed was erased since")
    return parts


def refuse_conflicts(number: int, states: States, version: Version) -> None:
    """Raise where subscriptions of a change are no longer what it left."""
    changed = []
    for id, (_, after) in states.items():
        if not is_same(after, state_in(version, id)):
            changed.append(id)
    if changed and all(is_same(before, state_in(version, id)) for id, (before, _) in states.items()):
        raise EarmarkError(f"change {number} is already undone: its subscriptions are what they were before it")
    if changed:
        listed = ", ".join(map(repr, changed[:5])) + (f" and {len(changed) - 5:,} more" if len(changed) > 5 else "")
        raise EarmarkError(f"change {number} is not undone: {listed} changed since; undo the later changes first")
