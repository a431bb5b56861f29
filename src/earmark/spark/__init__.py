"""The same matching on Spark: subscriptions and events are DataFrames, and so are the answers.

    snapshot = Snapshot.publish(subscriptions, "/shared/ads")       # parsed by the executors, one immutable version
    match(events, snapshot, k=10)                                   # batch or streaming DataFrame
    register(spark, snapshot)                                       # SELECT ... inline(top_matches(struct(e.*), 5)) ...

Importing this package needs neither pyspark nor Java; the first use of a name that does says what to install.
Everything works on classic and on Connect sessions.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from earmark.errors import EarmarkError
from earmark.spark.java import ensure_java

if TYPE_CHECKING:
    from earmark.book.folder import Conflict
    from earmark.spark.auditing import audit
    from earmark.spark.backtesting import backtest
    from earmark.spark.compacting import compact
    from earmark.spark.counts import shard_counts
    from earmark.spark.matching import match
    from earmark.spark.snapshot import Snapshot
    from earmark.spark.sources import register_sources, workload
    from earmark.spark.sql import register
    from earmark.spark.streaming import read_matches, stream

__all__ = [
    "Conflict",
    "Snapshot",
    "audit",
    "backtest",
    "compact",
    "ensure_java",
    "match",
    "read_matches",
    "register",
    "register_sources",
    "shard_counts",
    "stream",
    "workload",
]

_HOMES = {
    "Conflict": "earmark.book.folder",
    "Snapshot": "earmark.spark.snapshot",
    "audit": "earmark.spark.auditing",
    "backtest": "earmark.spark.backtesting",
    "compact": "earmark.spark.compacting",
    "match": "earmark.spark.matching",
    "read_matches": "earmark.spark.streaming",
    "register": "earmark.spark.sql",
    "register_sources": "earmark.spark.sources",
    "shard_counts": "earmark.spark.counts",
    "stream": "earmark.spark.streaming",
    "workload": "earmark.spark.sources",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_pyspark()
    return getattr(import_module(_HOMES[name]), name)


def require_pyspark() -> None:
    """Raise, naming what to install, where there is no pyspark."""
    if find_spec("pyspark") is None:
        raise EarmarkError("earmark on Spark needs pyspark, which is not installed; run: pip install 'earmark[spark]'")
