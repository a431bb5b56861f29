"""Every error earmark raises on purpose: a sentence a user can act on."""

from __future__ import annotations


class EarmarkError(Exception):
    """Base of all earmark errors."""


class SubscriptionError(EarmarkError):
    """A subscription that cannot be accepted: names the subscription, the piece of text, the reason.

    `reason` is the message without the part that names the subscription and shows its text; `start` and `end` are the
    place in the condition's text, None where it is not known.
    """

    def __init__(
        self, message: str = "", *, reason: str | None = None, start: int | None = None, end: int | None = None
    ) -> None:
        super().__init__(message)
        self.reason = message if reason is None else reason
        self.start = start
        self.end = end


class EventError(EarmarkError):
    """An event that cannot be read: names the event, the attribute and what was expected."""


class AttributeTypeError(SubscriptionError, EventError):
    """Two uses of one attribute that cannot both be right; names both."""


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
