"""The forms that a batch of subscriptions comes in, and what reads each.

pairs, mappings, Subscriptions          builder.py, one by one
a frame with `condition`                the same, row by row
a frame with `ranges` or bounds         columns.py, without a loop over rows
what `to_arrow` gave                    arrow.py, without loss
what `to_frame` gave                    a frame with `condition`

And back: one by one (`subscription_at`), or as a frame of plain columns that any library can carry (`to_frame`):

    id   condition   weights                            score   tags
    1    'a > 3'     [{key: 'a', value: 0.5}]           0.0     [{key: 'tenant', value: 'acme'}]

Where some have a life span, columns `starts` and `ends` follow. Weights and tags are lists of pairs, not Arrow maps,
which pandas and polars do not give back as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from earmark.errors import SubscriptionError, shown
from earmark.events.frames import as_arrow, is_frame
from earmark.keys.schema import Schema
from earmark.progress import track
from earmark.segment import arrow
from earmark.segment.builder import Prepared, Subscription, prepare, rows_of_frame
from earmark.segment.columns import Bounds, prepare_columns
from earmark.segment.explain import condition_text
from earmark.segment.life import has_life, life_of, moments
from earmark.segment.segment import Segment


def ids_of(subscriptions: Any) -> Iterator[Any]:
    """What a batch has as ids, right or wrong."""
    if is_frame(subscriptions):
        frame = as_arrow(subscriptions)
        yield from frame.column("id").to_pylist() if frame.column_names.count("id") == 1 else ()
        return
    for one in subscriptions:
        if isinstance(one, Subscription):
            yield one.id
        elif isinstance(one, Mapping):
            yield one.get("id")
        elif isinstance(one, Sequence) and one:
            yield one[0]


def reader_of(
    subscriptions: Any, bounds: Bounds | None = None, progress: bool | None = None
) -> Callable[[Schema], Prepared]:
    """What prepares the batch for a schema. `bounds` name pairs of a frame's columns.

    An iterator is read now: it may itself use the matcher that the schema is of.
    """
    if bounds is not None and not (is_frame(subscriptions) and isinstance(bounds, Mapping)):
        raise SubscriptionError("bounds map attributes to pairs of a frame's columns: {'age': ('min_age', 'max_age')}")
    if not is_frame(subscriptions):
        if not isinstance(subscriptions, Iterable):
            raise SubscriptionError(f"expected a sequence or a frame of subscriptions, got {shown(subscriptions)}")
        items = subscriptions if isinstance(subscriptions, list | tuple) else list(subscriptions)
        return lambda schema: prepare(schema, track(items, len(items), "adding", progress))
    frame = as_arrow(subscriptions)
    if len(set(frame.column_names)) < len(frame.column_names):
        raise SubscriptionError(f"there are two columns of one name: {', '.join(frame.column_names)}")
    if arrow.is_native(frame):
        return lambda schema: arrow.prepare_native(schema, frame)
    if {"clauses", "check", "sequence"} <= set(frame.column_names):
        raise SubscriptionError(
            "the frame came from to_arrow() and has lost its metadata on the way (pandas and polars drop it), and with "
            "it what the clauses mean; use to_frame(), which any library carries"
        )
    if "condition" in frame.column_names and bounds is None:
        if "id" not in frame.column_names:
            raise SubscriptionError(f"there is no column 'id'; the columns are {', '.join(frame.column_names)}")
        return lambda schema: prepare(schema, track(rows_of_frame(frame), frame.num_rows, "adding", progress))
    return lambda schema: prepare_columns(schema, frame, bounds)


def subscription_at(segment: Segment, slot: int) -> Subscription:
    """The subscription of a slot, as it was given."""
    weights, tags = weights_at(segment, slot), dict(segment.tags(slot))
    condition, (starts, ends) = condition_text(segment, slot), moments(life_of(segment, slot))
    score = score_at(segment, slot)
    return Subscription(segment.ids[slot], condition, weights, score, tags or None, starts=starts, ends=ends)


def weights_at(segment: Segment, slot: int) -> dict[str, float] | None:
    """The weights of a slot's attributes, but for those that are 1."""
    if not len(segment.arrays.weight):
        return None
    names = segment.schema.names
    return {names[n]: w for n, w in segment.weights(slot).items() if w != 1.0} or None


def score_at(segment: Segment, slot: int) -> float:
    """The static score of a slot."""
    return float(segment.arrays.score[slot]) if len(segment.arrays.score) else 0.0


def to_frame(segment: Segment) -> pa.Table:
    """All subscriptions of a segment, by slot."""

    def pairs(value: pa.DataType) -> pa.DataType:
        return pa.list_(pa.struct({"key": pa.string(), "value": value}))

    listed = [subscription_at(segment, slot) for slot in range(len(segment))]
    integers = bool(listed) and isinstance(listed[0].id, int)
    kinds = {
        "id": pa.int64() if integers else pa.string(),
        "condition": pa.string(),
        "weights": pairs(pa.float64()),
        "score": pa.float64(),
        "tags": pairs(pa.string()),
    }
    if has_life(segment.arrays):
        kinds |= dict.fromkeys(("starts", "ends"), pa.timestamp("us", "UTC"))
    columns = {name: [_listed(getattr(one, name)) for one in listed] for name in kinds}
    return pa.table({name: pa.array(columns[name], kind) for name, kind in kinds.items()})


def _listed(value: Any) -> Any:
    """A mapping as a list of pairs; anything else as it is."""
    return [{"key": k, "value": v} for k, v in value.items()] if isinstance(value, dict) else value
