"""Every error earmark raises on purpose: a sentence a user can act on."""

from __future__ import annotations


class EarmarkError(Exception):
    """Base of all earmark errors."""


class SubscriptionError(EarmarkError):
    """A subscription that cannot be accepted: names the subscription, the piece of text, the reason."""


class EventError(EarmarkError):
    """An event that cannot be read: says which event of a batch, which attribute, and what was expected."""

    def __init__(self, reason: str, *, attribute: str | None = None, event: int | None = None) -> None:
        super().__init__(reason if event is None else f"event {event}: {reason}")
        self.reason = reason
        self.attribute = attribute
        self.event = event

    def at(self, event: int | None) -> EventError:
        """The same problem in a batch, at this event."""
        return type(self)(self.reason, attribute=self.attribute, event=event)


class AttributeTypeError(SubscriptionError, EventError):
    """Two uses of one attribute that cannot both be right; names both."""


class TooManyAnswers(EarmarkError):
    """A search with more answers than fit into one result; says how to get them in parts."""


class TableError(EarmarkError):
    """A saved table that cannot be opened: truncated, corrupt, foreign, or of another format."""


def require(holds: object, what: str) -> None:
    """An assertion that stays when Python drops assertions: it guards what kernels read."""
    if not holds:
        raise AssertionError(what)
