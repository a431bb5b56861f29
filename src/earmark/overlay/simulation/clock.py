"""A clock of its own: what happens at which microsecond, and in which order inside one.

    agenda    1,000 ──► ARRIVE  f, g      2,500 ──► ASK  h      …      the earliest instant is taken out whole
                        TIMER   i

Inside an instant, ranks come in order, and within a rank whatever was added first.
**Complexity**: O(log t) per instant for t of them, O(1) per action.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

BREAK, ARRIVE, ASK, TIMER = range(4)
"""What breaks and is repaired; what arrives; what clients ask; timers, after brokers have dealt with the rest."""
Action = Callable[[], None]


class Agenda:
    """Actions by time."""

    def __init__(self) -> None:
        self.now = 0
        self._times: list[int] = []
        self._actions: dict[int, tuple[list[Action], ...]] = {}

    def __len__(self) -> int:
        return len(self._times)

    @property
    def seconds(self) -> float:
        """The time, for brokers and links."""
        return self.now / 1_000_000

    def add(self, at: int, rank: int, action: Action) -> None:
        """Do something at a time that is not past."""
        actions = self._actions.get(at)
        if actions is None:
            if at < self.now:
                raise ValueError(f"{at} is past: it is {self.now}")
            heapq.heappush(self._times, at)
            actions = self._actions[at] = ([], [], [], [])
        actions[rank].append(action)

    def take(self) -> tuple[list[Action], ...]:
        """Move on to the earliest instant, and return its actions by rank."""
        self.now = heapq.heappop(self._times)
        return self._actions.pop(self.now)
