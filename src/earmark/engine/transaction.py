"""Several changes that happen together or not at all.

Each call is checked at once, against the book as it was when the block began, with what the block has done so far. At
the end of the block the edits are made to the book as it is then: what others have changed meanwhile stays, and where
the edits no longer fit, none of them happens. So what the caller gives is copied when it is given: lists and mappings
may be used again for the next call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import numpy as np

from earmark.engine import edits
from earmark.engine.edits import Edit, Make
from earmark.engine.updates import KEEP, place_of
from earmark.engine.version import Version
from earmark.errors import EarmarkError
from earmark.events.frames import is_frame
from earmark.events.moments import Moment
from earmark.language.parameters import Params
from earmark.language.predicate import Condition
from earmark.segment.builder import Subscription, named, with_params
from earmark.segment.columns import Bounds
from earmark.segment.forms import ids_of, reader_of, subscription_at
from earmark.segment.ids import Id, checked_id


class Transaction:
    """Changes in the making; `with` ends it. It is for one thread."""

    def __init__(self, latest: Callable[[], Version], commit: Callable[[str, Sequence[Make]], Any]) -> None:
        """`commit` is given what to call the change, and its edits: the name of the only call, or "change"."""
        self._latest = latest
        self._commit = commit
        self._version: Version | None = None
        self._makes: list[Make] = []
        self._kinds: list[str] = []

    def __enter__(self) -> Self:
        if self._version is not None:
            raise EarmarkError("a change is made once: begin another one with change()")
        self._version = self._latest()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        makes, self._makes = self._makes, []
        self._latest = _over
        if kind is None and makes:
            self._commit(self._kinds[0] if len(makes) == 1 else "change", makes)

    def _make(self, kind: str, make: Make) -> Edit:
        if self._version is None or self._latest is _over:
            raise EarmarkError("changes are made inside the block: with m.change() as c: c.add(…)")
        edit = make(self._version)
        self._version = edit.version
        self._makes.append(make)
        self._kinds.append(kind)
        return edit

    def __len__(self) -> int:
        """How many subscriptions there would be."""
        return 0 if self._version is None else self._version.live

    def __contains__(self, id: object) -> bool:
        """Whether there would be a subscription."""
        return self._version is not None and self._version.find(checked_id(id)) is not None

    def __getitem__(self, id: Id) -> Subscription:
        """A subscription as it would be."""
        if self._version is None:
            raise EarmarkError("changes are made inside the block: with m.change() as c: c.add(…)")
        number, slot = place_of(self._version, id)
        return subscription_at(self._version.segments[number].segment, slot)

    def add(
        self,
        id: Id,
        condition: str | Condition,
        *,
        weights: Mapping[str, float] | None = None,
        score: float = 0.0,
        tags: Mapping[str, str] | None = None,
        params: Params | None = None,
        starts: Moment | None = None,
        ends: Moment | None = None,
    ) -> None:
        """Add one subscription; its id must be new."""
        given = Subscription(id, condition, weights, score, tags, params, starts, ends)
        self._make("add", edits.add(_own(given)))

    def add_many(self, subscriptions: Any, *, bounds: Bounds | None = None, progress: bool | None = None) -> int:
        """Add a batch, as `Matcher.add_many`; returns how many."""
        return self._make("add", edits.add_many(reader_of(_own_rows(subscriptions), _copied(bounds), progress))).added

    def remove(self, id: Id) -> None:
        """Remove one subscription."""
        self._make("remove", edits.remove(id))

    def remove_many(self, ids: Iterable[Id]) -> int:
        """Remove subscriptions; returns how many."""
        return len(self._make("remove", edits.remove_many(ids)).removed)

    def update(
        self,
        id: Id,
        condition: str | Condition = KEEP,
        *,
        weights: Mapping[str, float] | None = KEEP,
        score: float = KEEP,
        tags: Mapping[str, str] | None = KEEP,
        params: Params | None = None,
        starts: Moment | None = KEEP,
        ends: Moment | None = KEEP,
    ) -> None:
        """Change a subscription; what is not given stays."""
        given = Subscription(id, condition, weights, score, tags, params, starts, ends)
        self._make("update", edits.update(_own(given)))

    def upsert(
        self,
        id: Id,
        condition: str | Condition,
        *,
        weights: Mapping[str, float] | None = None,
        score: float = 0.0,
        tags: Mapping[str, str] | None = None,
        params: Params | None = None,
        starts: Moment | None = None,
        ends: Moment | None = None,
    ) -> bool:
        """Add a subscription, or replace the one with this id; returns whether it is new."""
        given = Subscription(id, condition, weights, score, tags, params, starts, ends)
        return not self._make("upsert", edits.upsert(_own(given))).removed

    def upsert_many(self, subscriptions: Any, *, bounds: Bounds | None = None, progress: bool | None = None) -> int:
        """Add a batch, as `add_many`; those whose ids are there replace the old ones, as `upsert`. Returns how many."""
        rows = _own_rows(subscriptions)
        prepare_for = reader_of(rows, _copied(bounds), progress)
        return self._make("upsert", edits.upsert_many(ids_of(rows), prepare_for)).added

    def declare(self, attributes: Mapping[str, str]) -> None:
        """Fix the types of attributes."""
        self._make("declare", edits.declare(_copied(attributes)))


def _over() -> Version:
    raise EarmarkError("the change is over: begin another one with change()")


# --- what the caller may change afterwards -------------------------------------------------------------------

_DEEP = 4
"""Levels of lists and mappings in a row: the row, its params, a list among them, and one to spare."""


def _own(given: Subscription) -> Subscription:
    """A subscription that shares nothing with the caller that can change, its params written in."""
    params, condition = given.params, given.condition
    if params is not None and condition is not KEEP:
        try:
            condition, params = with_params(condition, params), None
        except EarmarkError as problem:
            raise named(problem, None, given) from None
    weights, tags = _copied(given.weights), _copied(given.tags)
    return replace(given, condition=condition, weights=weights, tags=tags, params=params)


def _own_rows(subscriptions: Any) -> Any:
    """A batch that shares nothing with the caller that can change. O(rows)."""
    if is_frame(subscriptions):
        is_pandas = type(subscriptions).__module__.startswith("pandas")  # whose columns Arrow may share
        return subscriptions.copy() if is_pandas and hasattr(subscriptions, "copy") else subscriptions
    if not isinstance(subscriptions, Iterable):
        return subscriptions
    return [_copied(row) for row in subscriptions]


def _copied(value: Any, deep: int = _DEEP) -> Any:
    """Lists and mappings, and what is in them, as new ones; anything else as it is."""
    if not deep:
        return value
    if isinstance(value, Subscription):
        weights, tags, params = map(_copied, (value.weights, value.tags, value.params))
        return replace(value, weights=weights, tags=tags, params=params)
    if isinstance(value, Mapping):
        return {key: _copied(one, deep - 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_copied(one, deep - 1) for one in value]
    if type(value) is tuple:
        return tuple(_copied(one, deep - 1) for one in value)
    if isinstance(value, set | np.ndarray):
        return value.copy()
    return value
