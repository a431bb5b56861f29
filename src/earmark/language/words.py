"""Words in what people read: a number with its noun, and which known name a misspelt one meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MAX_COMPARED = 10_000  # difflib takes about 10 µs per name


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun in the singular or plural: "1 event", "2,000 events"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The name that is most like `name`, regardless of case; None when none is like it.

    >>> nearest_name("ctiy", ["age", "city", "country"])
    'city'
    """
    by_folded: dict[str, str] = {}
    for known in names:
        if len(by_folded) == _MAX_COMPARED:
            break
        by_folded.setdefault(known.casefold(), known)
    found = get_close_matches(name.casefold(), by_folded, n=1)
    return by_folded[found[0]] if found else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: a suggestion, or nothing.

    >>> did_you_mean("ctiy", ["age", "city"])
    ": did you mean 'city'?"
    """
    found = nearest_name(name, names)
    return "" if found is None else f": did you mean {found!r}?"
