"""Every error earmark raises on purpose: facts in fields, and one sentence made of them that a user can act on."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, Self, TypedDict, Unpack

MOST_LISTED = 20
"""Problems that the message of an error for several rows names; `problems` has all."""


class Fields(TypedDict, total=False):
    """What an error knows beside its reason."""

    source: str | None
    line: int | None
    row: int | None
    event: int | None
    id: Any
    attribute: str | None
    condition: str | None
    text: str | None
    start: int | None
    end: int | None
    problems: tuple[EarmarkError, ...]


class EarmarkError(Exception):
    """Base of all earmark errors: the reason, and where the problem is, each field None where it does not apply.

    The message is made of the fields, here and nowhere else:

        row 7, subscription 'x': expected an integer for 'age', got 'old'
        subscription 'x': condition 'age > 3 4' at '4': expected AND, OR or the end after '3', got '4'

    Whoever knows more about where a problem is raises the same problem `at` more fields.
    """

    def __init__(self, reason: str = "", **fields: Unpack[Fields]) -> None:
        super().__init__(reason)
        self.reason = reason
        """The message without its place: what is wrong, and what would be right."""
        self.source: str | None = None
        """The file, as messages name it."""
        self.line: int | None = None
        """The line of the file, counted from 1."""
        self.row: int | None = None
        """The row of a batch of subscriptions, or of a file, counted from 0."""
        self.event: int | None = None
        """The event of a batch, counted from 0."""
        self.id: Any = None
        """The id of the subscription, as it was given."""
        self.attribute: str | None = None
        self.condition: str | None = None
        """The whole condition that cannot be read."""
        self.text: str | None = None
        """The piece of the condition at fault."""
        self.start: int | None = None
        """Where in the condition the piece begins."""
        self.end: int | None = None
        """Where it ends."""
        self.problems: tuple[EarmarkError, ...] = ()
        """All problems, where there are several: one error for each row."""
        self._set(fields)

    def _set(self, fields: Fields) -> None:
        if unknown := fields.keys() - Fields.__annotations__.keys():
            raise TypeError(f"an error has no field {', '.join(sorted(unknown))}")
        self.__dict__.update(fields)

    def at(self, **fields: Unpack[Fields]) -> Self:
        """The same problem with more fields."""
        other = copy.copy(self)
        other._set(fields)
        return other

    def __str__(self) -> str:
        return ": ".join(part for part in (self._place(), self._piece(), self.reason, self._listed()) if part)

    def _place(self) -> str:
        """The file, the line, row or event, and the subscription."""
        numbers = (("line", self.line), ("row", self.row), ("event", self.event))
        number = next((f"{word} {number}" for word, number in numbers if number is not None), None)
        owner = None if self.id is None else f"subscription {shown(self.id)}"
        return ", ".join(part for part in (self.source, number, owner) if part)

    def _piece(self) -> str:
        """The condition and the piece of it at fault."""
        if self.condition is None:
            return shortened(self.text or "", 300)
        whole = f"condition {shortened(self.condition, 200)!r}"
        return f"{whole} at {shortened(self.text, 60)!r}" if self.text else whole

    def _listed(self) -> str:
        """The first of several problems; the file is named before them."""
        listed = [str(one.at(source=None) if self.source else one) for one in self.problems[:MOST_LISTED]]
        more = len(self.problems) - len(listed)
        return "; ".join([*listed, f"and {more:,} more"] if more else listed)


class SubscriptionError(EarmarkError):
    """A subscription that cannot be accepted: names the subscription, the piece of text, the reason."""


class EventError(EarmarkError):
    """An event that cannot be read: says which event of a batch, which attribute, and what was expected."""


class AttributeTypeError(SubscriptionError, EventError):
    """Two uses of one attribute that cannot both be right; names both."""


class TooManyAnswers(EarmarkError):
    """A search with more answers than fit into one result; says how to get them in parts."""


class TableError(EarmarkError):
    """A saved table that cannot be opened: truncated, corrupt, foreign, or of another format."""

    is_damage = False
    """Whether something is missing, or is not what was written."""


def refuse(problems: Sequence[EarmarkError]) -> None:
    """Raise what is wrong with a batch of subscriptions, if anything: one problem as it is, several as one error."""
    if len(problems) == 1:
        raise problems[0] from None
    if problems:
        raise SubscriptionError(f"{len(problems):,} subscriptions were refused", problems=tuple(problems)) from None


def check_whole(number: int, what: str, least: int, most: int | None = None) -> None:
    """Raise unless the number is an integer from `least` on, and at most `most`."""
    good = isinstance(number, Integral) and not isinstance(number, bool)
    if not good or number < least or (most is not None and number > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise EarmarkError(f"expected an integer {bounds} for {what}, got {number!r}")


def check_flag(value: object, what: str) -> None:
    """Raise unless the value is True or False."""
    if not isinstance(value, bool):
        raise EarmarkError(f"expected True or False for {what}, got {value!r}")


def check_seconds(value: object, what: str) -> None:
    """Raise unless the value is a number of seconds, from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise EarmarkError(f"expected a number of seconds for {what}, got {value!r}")


def checked_names(values: object, what: str) -> list[str]:
    """The strings of a list or another collection; raise for anything else."""
    try:
        names = None if isinstance(values, str | bytes) or not isinstance(values, Iterable) else [*values]
    except TypeError:  # a class may say so only then, as Spark's Column does
        names = None
    if names is None:
        raise EarmarkError(f"expected a list of strings for {what}, got {values!r}")
    for name in names:
        if not isinstance(name, str) or not name:
            raise EarmarkError(f"expected a list of strings for {what}, got {name!r} in it")
    return names


def require(holds: object, what: str) -> None:
    """An assertion that stays when Python drops assertions: it guards what kernels read."""
    if not holds:
        raise AssertionError(what)


# --- values in messages --------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """A value for a message: short, and without the limits that Python sets to writing out integers."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length():,} bits"
    try:
        return shortened(repr(value), 100)
    except ValueError:  # a container of such integers
        return f"a {type(value).__name__}"


def shortened(text: str, length: int) -> str:
    """The start of a text, for messages."""
    return text if len(text) <= length else text[:length] + "…"
