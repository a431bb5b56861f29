"""Matching on Spark: subscriptions and events are DataFrames, and so are the answers.

    snapshot = Snapshot.publish(subscriptions, "/shared/ads")       # parsed by the executors, one immutable version
    match(events, snapshot, k=10)                                   # batch or streaming DataFrame
    register(spark, snapshot)                                       # SELECT ... inline(top_matches(struct(e.*), 5)) ...

Importing this package needs neither pyspark nor Java; the first use of a name that needs them says what to install.
Everything works on classic and on Connect sessions.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from earmark.errors import EarmarkError
from earmark.spark.java import ensure_java as ensure_java

if TYPE_CHECKING:
    from earmark.book.publishing import Conflict as Conflict
    from earmark.spark.hygiene.auditing import audit as audit
    from earmark.spark.hygiene.backtesting import backtest as backtest
    from earmark.spark.hygiene.merging import merge as merge
    from earmark.spark.listener import MatchListener as MatchListener
    from earmark.spark.matching import count_matches as count_matches
    from earmark.spark.matching import match as match
    from earmark.spark.matching import rejected as rejected
    from earmark.spark.matching import shard_counts as shard_counts
    from earmark.spark.snapshot import Snapshot as Snapshot
    from earmark.spark.sources import register_sources as register_sources
    from earmark.spark.sql import register as register
    from earmark.spark.streaming import read_matches as read_matches
    from earmark.spark.streaming import read_rejected as read_rejected
    from earmark.spark.streaming import stream as stream
    from earmark.spark.table_function import register_matches as register_matches
    from earmark.spark.workloads import workload as workload

_NAMES = {
    "book.publishing": ["Conflict"],
    "spark.hygiene.auditing": ["audit"],
    "spark.hygiene.backtesting": ["backtest"],
    "spark.hygiene.merging": ["merge"],
    "spark.listener": ["MatchListener"],
    "spark.matching": ["count_matches", "match", "rejected", "shard_counts"],
    "spark.snapshot": ["Snapshot"],
    "spark.sources": ["register_sources"],
    "spark.sql": ["register"],
    "spark.table_function": ["register_matches"],
    "spark.workloads": ["workload"],
    "spark.streaming": ["read_matches", "read_rejected", "stream"],
}
_HOMES = {name: f"earmark.{module}" for module, names in _NAMES.items() for name in names}

__all__ = ["ensure_java", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_pyspark()
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ImportError as problem:
        if not str(problem.name).startswith("pyspark"):
            raise
        version = import_module("pyspark").__version__
        raise EarmarkError(f"{name} needs a newer Spark than {version} (docs/spark.md#versions)") from None


def require_pyspark() -> None:
    """Raise an error that says what to install, if pyspark is missing."""
    if find_spec("pyspark") is None:
        raise EarmarkError("earmark on Spark needs pyspark, which is not installed; run: pip install 'earmark[spark]'")
