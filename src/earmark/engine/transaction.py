"""Several changes that happen together or not at all.

Each call is checked at once, against the book as it was when the block began, with what the block has done so far. At
the end of the block the edits are made to the book as it is then: what others have changed meanwhile stays, and where
the edits no longer fit, none of them happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from earmark.engine import edits
from earmark.engine.edits import Edit, Make
from earmark.engine.updates import KEEP, place_of
from earmark.engine.version import Version
from earmark.errors import EarmarkError
from earmark.events.moments import Moment
from earmark.language.parameters import Params
from earmark.language.predicate import Condition
from earmark.segment.builder import Subscription
from earmark.segment.columns import Bounds
from earmark.segment.forms import reader_of, subscription_at
from earmark.segment.ids import Id, checked_id


class Transaction:
    """Changes in the making; `with` ends it. It is for one thread."""

    def __init__(self, latest: Callable[[], Version], commit: Callable[[Sequence[Make]], Any]) -> None:
        self._latest = latest
        self._commit = commit
        self._version: Version | None = None
        self._makes: list[Make] = []

    def __enter__(self) -> Self:
        if self._version is not None:
            raise EarmarkError("a change is made once: begin another one with change()")
        self._version = self._latest()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        makes, self._makes = self._makes, []
        self._latest = _over
        if kind is None and makes:
            self._commit(makes)

    def _make(self, make: Make) -> Edit:
        if self._version is None or self._latest is _over:
            raise EarmarkError("changes are made inside the block: with m.change() as c: c.add(…)")
        edit = make(self._version)
        self._version = edit.version
        self._makes.append(make)
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
        self._make(edits.add(Subscription(id, condition, weights, score, tags, params, starts, ends)))

    def add_many(self, subscriptions: Any, *, bounds: Bounds | None = None, progress: bool | None = None) -> int:
        """Add a batch, as `Matcher.add_many`; returns how many."""
        return self._make(edits.add_many(reader_of(subscriptions, bounds, progress))).added

    def remove(self, id: Id) -> None:
        """Remove one subscription."""
        self._make(edits.remove(id))

    def remove_many(self, ids: Iterable[Id]) -> int:
        """Remove subscriptions; returns how many."""
        return len(self._make(edits.remove_many(ids)).removed)

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
        self._make(edits.update(Subscription(id, condition, weights, score, tags, params, starts, ends)))

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
        return not self._make(edits.upsert(given)).removed

    def declare(self, attributes: Mapping[str, str]) -> None:
        """Fix the types of attributes."""
        self._make(edits.declare(attributes))


def _over() -> Version:
    raise EarmarkError("the change is over: begin another one with change()")
