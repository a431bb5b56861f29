"""Flooding: every entry is told on every link. The yardstick, and right by construction."""

from __future__ import annotations

from collections.abc import Sequence

from earmark.overlay.policies import Entry, Policy, Statement, Tell, Untell


class Flood(Policy):
    """Everything to everybody."""

    name = "flood"

    def __init__(self) -> None:
        self._told: dict[str, dict[int, Entry]] = {}

    def open(self, link: str) -> None:
        """Begin a link."""
        self._told[link] = {}

    def close(self, link: str) -> None:
        """Forget a link."""
        del self._told[link]

    def change(self, link: str, added: Sequence[Entry], removed: Sequence[Entry]) -> list[Statement]:
        """Tell each entry, and withdraw it."""
        told = self._told[link]
        told.update((entry.number, entry) for entry in added)
        for entry in removed:
            del told[entry.number]
        statements: list[Statement] = [Tell(entry.number, entry.condition) for entry in added]
        return statements + [Untell(entry.number) for entry in removed]

    def told(self, link: str) -> list[Statement]:
        """All entries."""
        return [Tell(entry.number, entry.condition) for entry in self._told[link].values()]

    def status(self, link: str) -> dict[str, object]:
        """How many entries were told."""
        return {"entries": len(self._told[link]), "told": len(self._told[link])}
