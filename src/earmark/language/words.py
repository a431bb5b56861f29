"""How numbers and nouns go together in what people read."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun in the singular or plural: "1 event", "2,000 events"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
