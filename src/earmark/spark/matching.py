"""Which subscriptions of a snapshot do the events of a DataFrame match?

    events ──select──► carried columns, attributes ──mapInArrow──► carried columns, subscription, score, version

Only the columns that are needed go to Python: those of the attributes that the snapshot has, and those that the caller
wants carried along. Each worker maps the version (book/workers.py), encodes a batch, searches, and gives Arrow batches
of a fixed schema back. Nothing is kept between batches, so a stream stays stateless.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from earmark.book.workers import opened
from earmark.engine.batch import Batch
from earmark.engine.searcher import Answers, Ask, Searcher
from earmark.engine.version import Version
from earmark.errors import EarmarkError, EventError, TooManyAnswers
from earmark.events.mappings import checked_weights
from earmark.index.given import Mode, asked_k, asked_relaxed
from earmark.segment.segment import NO_TAGS, Tags
from earmark.segment.subscription import checked_tags
from earmark.spark import frames
from earmark.spark.picking import RESULTS, Columns, Picked, encoded
from earmark.spark.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

FIRST_STEP, LAST_STEP = 2_048, 65_536  # events a search
WANTED_ANSWERS = 1 << 20  # a search
OUTPUT_ROWS = 1 << 16  # a batch given back
LOCAL, SHUFFLE = ROUTES = ("local", "shuffle")
AUTO = "auto"
MOST_REPLICAS = 1_000


class Search(NamedTuple):
    """What to search and how: travels to the workers, and is the same for DataFrames and SQL."""

    root: str
    version: int
    checksum: str
    """Of the version's record: a folder may have been deleted and published again."""
    k: int | None
    relaxed: bool
    scope: Tags
    weights: dict[str, float] | None

    def opened(self) -> Version:
        """The version, as this process has it."""
        return opened(self.root, self.version, self.checksum)

    def encoded(self, version: Version, columns: Columns, batch: pa.RecordBatch) -> Batch:
        """The events of a batch as keys."""
        return Batch(encoded(version.schema, columns, batch, self.weights), {}, None)

    def searcher(self, version: Version) -> Searcher:
        """What answers."""
        return Searcher(version, Ask(self.k, self.relaxed, self.scope))


def match(
    events: DataFrame,
    snapshot: Snapshot,
    k: int | None = None,
    *,
    mode: Mode = "exact",
    columns: Sequence[str] | None = None,
    scope: Mapping[str, str] | None = None,
    weights: Mapping[str, float] | str | None = None,
    event: str | None = None,
    route: str = LOCAL,
    replicas: int | str = 1,
) -> DataFrame:
    """Which subscriptions the events match: the event columns asked for, subscription, score, snapshot_version.

    All matches in order of insertion, or the `k` best, best first; `mode` "relaxed" ranks those of which at least one
    constraint holds (it needs `k`). `columns` are the event columns to carry along (all unless given; naming only the
    ids saves time). `scope` restricts the search to subscriptions with these tags; `weights` are the events', one
    mapping for all or the name of a map column. A batch or a streaming DataFrame.

    An attribute is the column of its name, or by dotted name a field of a struct or a key of a map; a struct of
    exactly `lo` and `hi` is an interval. `event` names the column that holds the whole event, a map or a struct;
    without it, a DataFrame with no attribute's column but one map with texts as keys is read so.

    Of a sharded snapshot, events are searched only in the shards that may match them. With `route="local"` each worker
    takes its events through the shards, one shard after another; with "shuffle", for batches only, events travel to
    partitions that have one shard each, of which a busy shard may have several: `replicas`, or by a count of the events
    beforehand with "auto".
    """
    check_route(route, replicas)
    ready = prepared(events, snapshot, k, mode, columns, scope, weights, event)
    if route == SHUFFLE:
        from earmark.spark.shuffled import shuffled

        return shuffled(ready, snapshot, replicas)
    search, plan = ready.search, ready.columns
    return ready.frame.mapInArrow(lambda batches: match_batches(search, plan, batches), ready.schema)


def check_route(route: str, replicas: int | str) -> None:
    """Refuse what is no route, and whichever is taken, what is no number of replicas."""
    if route not in ROUTES:
        raise EarmarkError(f"route is {LOCAL!r} or {SHUFFLE!r}; got {route!r}")
    if replicas == AUTO:
        return
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not 1 <= replicas <= MOST_REPLICAS:
        raise EarmarkError(f"replicas is a number from 1 to {MOST_REPLICAS:,}, or {AUTO!r}; got {replicas!r}")


class Prepared(NamedTuple):
    """A call of `match`, checked: what goes to Python, and what comes back."""

    frame: DataFrame
    search: Search
    columns: Columns
    schema: StructType


def prepared(
    events: DataFrame,
    snapshot: Snapshot,
    k: int | None,
    mode: Mode,
    columns: Sequence[str] | None,
    scope: Mapping[str, str] | None,
    weights: Mapping[str, float] | str | None,
    event: str | None,
) -> Prepared:
    """Check what a caller wants, and find it in the DataFrame."""
    spark = events.sparkSession
    search = search_of(spark, snapshot, k, mode, scope, weights if not isinstance(weights, str) else None)
    picked = Picked(events, snapshot.schema, event)
    if isinstance(weights, str):
        picked.take_weights(weights)
    carried = picked.carry(columns)
    plan = picked.columns(carried)
    schema = _result_schema([field for field, _ in carried], snapshot)
    return Prepared(picked.selected(), search, plan, schema)


def search_of(
    spark: SparkSession,
    snapshot: Snapshot,
    k: int | None,
    mode: Mode,
    scope: Mapping[str, str] | None,
    weights: Mapping[str, float] | None,
) -> Search:
    """Check what a caller wants, and whether this session can ask for it."""
    relaxed = asked_relaxed(mode)
    if k is not None:
        k = asked_k(k)
    elif relaxed:
        raise EarmarkError("mode 'relaxed' ranks, so it needs k: the number of results an event")
    frames.refuse_case_variants(spark, snapshot.schema.names)
    frames.check_zone(spark, snapshot.schema)
    tags = checked_tags(scope, "a scope") if scope is not None else NO_TAGS
    own = checked_weights(weights, EventError) if weights is not None else None
    return Search(str(snapshot.path), snapshot.version, snapshot.record["checksum"], k, relaxed, tags, own)


def _result_schema(carried: Sequence[StructField], snapshot: Snapshot) -> StructType:
    from pyspark.sql.types import DoubleType, LongType

    own = zip(RESULTS, (frames.id_type(snapshot.integer_ids), DoubleType(), LongType()), strict=True)
    return frames.struct_of({**{field.name: field.dataType for field in carried}, **dict(own)})


# --- on the workers ------------------------------------------------------------------------------------------


def match_batches(search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The answers for the batches of a partition."""
    for part, answers in searched(search, columns, batches):
        yield from given_back(search, columns, part, answers)


def searched(
    search: Search, columns: Columns, batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, Answers]]:
    """The events of a partition, some at a time, and their answers."""
    version = search.opened()
    searcher, step = search.searcher(version), FIRST_STEP
    for batch in batches:
        first = 0
        while first < batch.num_rows:
            part = batch.slice(first, step)
            try:
                answers = searcher.answers(search.encoded(version, columns, part))
            except TooManyAnswers:
                if part.num_rows == 1:
                    raise
                step = part.num_rows // 2
                continue
            first += part.num_rows
            yield part, answers
            per_event = max(len(answers.scores) / part.num_rows, 1 / LAST_STEP)
            step = int(min(max(WANTED_ANSWERS / per_event, 64), LAST_STEP))


def given_back(search: Search, columns: Columns, batch: pa.RecordBatch, answers: Answers) -> Iterator[pa.RecordBatch]:
    """Answers as batches of the result."""
    if not len(answers.scores):
        return
    rows = pa.array(answers.events)
    made = [batch.column(at).take(rows) for at in columns.carried]
    version = pa.array(np.full(len(rows), search.version, np.int64))
    whole = pa.RecordBatch.from_arrays([*made, answers.subscriptions, pa.array(answers.scores), version], columns.names)
    for first in range(0, whole.num_rows, OUTPUT_ROWS):
        yield whole.slice(first, OUTPUT_ROWS)
