"""How commands print what users wrote: subscriptions, their changes, times; nothing of it can command a terminal.

Fields are printed as options take them: tags `tenant=acme`, times `2026-03-01T12:00:00Z`. What anybody may have written
into a book, such as an id or a message, goes through `printable`. JSON has the same fields, escaped as JSON does; where
it is data for a program, through `one_json`, only on a terminal.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from earmark.segment.builder import Subscription

NOTHING = "none"
_FIELDS = ("id", "condition", "weights", "score", "tags", "starts", "ends")
_DEFAULTS = {"score": 0.0}


def printable(text: str, *, keep: str = "") -> str:
    r"""Return the text with each character that is not printable as an escape, as Python strings have it.

    `keep` are characters that stay, such as the newlines of a report.

    >>> print(printable("red \x1b[31m\n"))
    red \x1b[31m\n
    """
    return text if text.isprintable() else "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def printable_json(text: str) -> str:
    """Return lines of JSON with such characters as escapes of JSON, so that it means the same."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def one_json(value: Any) -> str:
    """Return one value as a line of JSON for stdout: for a pipe as it is, for a terminal with such escapes."""
    text = json.dumps(value, ensure_ascii=False)
    return printable_json(text) if sys.stdout.isatty() else text


def iso(moment: datetime) -> str:
    """Return a time as ISO 8601 writes it, in UTC with a Z, so that commands take it back."""
    text = moment.isoformat()
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def fields(subscription: Subscription) -> dict[str, Any]:
    """Return what a subscription has that is not its default."""
    found = {name: getattr(subscription, name) for name in _FIELDS}
    return {name: _plain(value) for name, value in found.items() if value not in (None, 0.0) or name == "id"}


def _plain(value: Any) -> Any:
    return iso(value) if isinstance(value, datetime) else value


def shown(value: Any) -> str:
    """Return a value of a field on one line: pairs as NAME=VALUE, None as a word."""
    if isinstance(value, dict):
        return printable(", ".join(f"{name}={one}" for name, one in value.items())) or NOTHING
    return NOTHING if value is None else printable(str(value))


def listed(about: dict[str, Any]) -> str:
    """Return fields as lines of NAME: VALUE."""
    return "\n".join(f"{printable(name)}: {shown(value)}" for name, value in about.items())


def change_line(about: dict[str, Any], what: str) -> str:
    """Return a change on one line: number, time, kind, who and why, and what became of the subscriptions."""
    who = f" by {printable(about['author'])}" if about["author"] else ""
    why = f" ({printable(about['message'])})" if about["message"] else ""
    return f"{about['change']}  {about['time']}  {about['kind']}{who}{why}: {what}"


def difference(before: Subscription | None, after: Subscription | None) -> str:
    """Return what a change did to a subscription; all of it where it came or went."""
    if before is None or after is None:
        one = before or after
        return "nothing of it is kept" if one is None else ("was " if after is None else "") + _text(one)
    old, new = fields(before), fields(after)
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    values = [(name, *(shown(one.get(name, _DEFAULTS.get(name))) for one in (old, new))) for name in changed]
    return "; ".join(f"{name} {was} → {now}" for name, was, now in values) or "the same"


def _text(one: Subscription) -> str:
    return "; ".join(
        shown(value) if name == "condition" else f"{name} {shown(value)}"
        for name, value in fields(one).items()
        if name != "id"
    )
