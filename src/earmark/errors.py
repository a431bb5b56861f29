"""Every error earmark raises on purpose: a sentence a user can act on."""

from __future__ import annotations


class EarmarkError(Exception):
    """Base of all earmark errors."""


class SubscriptionError(EarmarkError):
    """A subscription that cannot be accepted: names the subscription, the piece of text, the reason."""


class EventError(EarmarkError):
    """An event that cannot be read: names the event, the attribute and what was expected."""


class AttributeTypeError(SubscriptionError, EventError):
    """Two uses of one attribute that cannot both be right; names both."""


class TableError(EarmarkError):
    """A saved table that cannot be opened: truncated, corrupt, foreign, or of another format."""


def require(holds: object, what: str) -> None:
    """An assertion that stays when Python drops assertions: it guards what kernels read."""
    if not holds:
        raise AssertionError(what)
