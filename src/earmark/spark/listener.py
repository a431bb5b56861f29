"""The figures of running streams, for whoever watches all queries of a session.

    spark.streams.addListener(MatchListener(send_to_dashboard))

A stream started by `stream` has them in its reports; a streaming DataFrame from `match(…, metrics="ads")`, in the
metrics that Spark observes. The listener gives both in one form. Other queries are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from earmark.spark.matching import COUNTS
from earmark.spark.streaming import running_stream


@dataclass(frozen=True, slots=True)
class Figures:
    """What a micro-batch of a stream did. A figure that is not known is None."""

    query: str
    """The name of the query, or its id where it has none."""
    batch: int
    seconds: float
    events: int | None
    rejected: int | None
    """Number of events of which something could not be read."""
    searched: int | None
    """Events times the shards that each met."""
    candidates: int | None
    """Answers of all shards, of which the k best are kept."""
    matches: int | None
    lag: float | None
    """Seconds from the newest event to the end of the batch; of a `match`, where the events have a watermark."""

    @property
    def shards_met(self) -> float | None:
        """Shards that an event met, on average."""
        return self.searched / self.events if self.searched is not None and self.events else None


class MatchListener(StreamingQueryListener):
    """Calls a function with the figures of every micro-batch, from a thread of Spark's.

    `metrics` is the name that `match` was given for its observation.
    """

    def __init__(self, on_figures: Callable[[Figures], None], metrics: str = "earmark") -> None:
        self.on_figures = on_figures
        self.metrics = metrics

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Pass on the figures of a micro-batch, if it has any."""
        progress = event.progress
        figures = self._of_stream(progress) or self._of_match(progress)
        if figures is not None:
            self.on_figures(figures)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def _of_stream(self, progress: Any) -> Figures | None:
        """Return the figures of a batch of `stream`: those of its report."""
        stream = running_stream(str(progress.id))
        report = None if stream is None else stream.work.sink.done(progress.batchId)
        if report is None:
            return None
        counts = {name: getattr(report, name) for name in COUNTS if name != "events"}
        return Figures(_name(progress), report.batch, report.seconds, report.rows, **counts, lag=report.lag)

    def _of_match(self, progress: Any) -> Figures | None:
        """Return the figures of a batch of `match`: those that were observed."""
        row = progress.observedMetrics.get(self.metrics)
        if row is None or not set(COUNTS) <= set(row.asDict()):
            return None
        seconds = progress.durationMs.get("triggerExecution", 0) / 1_000
        lag, newest = None, progress.eventTime.get("max")
        if newest is not None:
            lag = (_moment(progress.timestamp) - _moment(newest)).total_seconds() + seconds
        counts = {name: int(row[name]) for name in COUNTS}
        return Figures(_name(progress), progress.batchId, seconds, **counts, lag=lag)


def _name(progress: Any) -> str:
    return str(progress.name or progress.id)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
