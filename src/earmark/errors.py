"""Every error earmark raises on purpose: a sentence a user can act on."""

from __future__ import annotations


class EarmarkError(Exception):
    """Base of all earmark errors: a message, and the facts in it, each None where it does not apply."""

    def __init__(
        self,
        message: str = "",
        *,
        reason: str | None = None,
        attribute: str | None = None,
        event: int | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        super().__init__(message if event is None else f"event {event}: {message}")
        self.reason = message if reason is None else reason
        """The message without its place: the event's number, or the subscription and its text."""
        self.attribute = attribute
        self.event = event
        """Which event of a batch."""
        self.start = start
        """The place in the text of a condition."""
        self.end = end


class SubscriptionError(EarmarkError):
    """A subscription that cannot be accepted: names the subscription, the piece of text, the reason."""


class EventError(EarmarkError):
    """An event that cannot be read: says which event of a batch, which attribute, and what was expected."""

    def at(self, event: int | None) -> EventError:
        """The same problem in a batch, at this event."""
        return type(self)(self.reason, attribute=self.attribute, event=event)


class AttributeTypeError(SubscriptionError, EventError):
    """Two uses of one attribute that cannot both be right; names both."""


class TooManyAnswers(EarmarkError):
    """A search with more answers than fit into one result; says how to get them in parts."""


class TableError(EarmarkError):
    """A saved table that cannot be opened: truncated, corrupt, foreign, or of another format."""


def reworded(problem: EarmarkError, message: str) -> EarmarkError:
    """The same problem with another message, for whoever knows more about where it comes from."""
    other = type(problem)(message)
    other.__dict__.update(problem.__dict__)
    return other


def require(holds: object, what: str) -> None:
    """An assertion that stays when Python drops assertions: it guards what kernels read."""
    if not holds:
        raise AssertionError(what)
