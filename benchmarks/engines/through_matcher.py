"""earmark as its users have it: `Matcher()` with its default index, rows of ids and no scores, one thread."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from earmark import Matcher
from earmark.workload.standard import Workload
from engines.base import Answer, Engine, Pairs, is_dense
from load import bounds, event_dicts, event_frame, ranges


class ThroughMatcher(Engine):
    """Subscriptions from an Arrow table; events as an Arrow table, or one mapping per call."""

    def __init__(self, name: str, threads: int = 1) -> None:
        super().__init__("earmark", threads)

    def prepare(self, workload: Workload) -> None:
        self.frame, self.dicts = event_frame(workload), event_dicts(workload)
        self.given = bounds(workload) if is_dense(workload) else ranges(workload, weighted=False)

    def build(self, workload: Workload) -> None:
        self.matcher = Matcher()
        self.matcher.add_many(self.given, progress=False)

    def searches(self) -> dict[str, Callable[[int], Answer]]:
        return {"batch": self.batch, "single": self.single}

    def batch(self, count: int) -> Answer:
        """The first events in one call."""
        threaded = "threads" in inspect.signature(self.matcher.match_many).parameters
        found = self.matcher.match_many(
            self.frame.slice(0, count), scores=False, **({"threads": self.threads} if threaded else {})
        )
        return Pairs(found["event"].to_numpy(), found["subscription"].to_numpy())

    def single(self, count: int) -> Answer:
        """One call per event."""
        return [self.matcher.match(event) for event in self.dicts[:count]]
