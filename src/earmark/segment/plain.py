"""Subscriptions as they were given: one by one, or as a frame of plain columns that any library can carry.

    id   condition   weights                            score   tags
    1    'a > 3'     [{key: 'a', value: 0.5}]           0.0     [{key: 'tenant', value: 'acme'}]

Weights and tags are lists of pairs, not Arrow maps, which pandas and polars do not give back as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from earmark.segment.explain import condition_text
from earmark.segment.segment import Segment
from earmark.segment.subscription import Subscription

if TYPE_CHECKING:
    import pyarrow as pa


def subscription_at(segment: Segment, slot: int) -> Subscription:
    """The subscription of a slot, as it was given."""
    names = segment.schema.names
    weights = {names[n]: w for n, w in segment.weights(slot).items() if w != 1.0}
    score = float(segment.arrays.score[slot]) if len(segment.arrays.score) else 0.0
    tags = dict(segment.tags(slot))
    return Subscription(segment.ids[slot], condition_text(segment, slot), weights or None, score, tags or None)


def to_frame(segment: Segment) -> pa.Table:
    """All subscriptions of a segment, by slot."""
    import pyarrow as pa

    def pairs(value: pa.DataType) -> pa.DataType:
        return pa.list_(pa.struct({"key": pa.string(), "value": value}))

    listed = [subscription_at(segment, slot) for slot in range(len(segment))]
    integers = bool(listed) and isinstance(listed[0].id, int)
    weights = [_listed(one.weights) for one in listed]
    tags = [_listed(one.tags) for one in listed]
    return pa.table(
        {
            "id": pa.array([one.id for one in listed], pa.int64() if integers else pa.string()),
            "condition": pa.array([one.condition for one in listed], pa.string()),
            "weights": pa.array(weights, pairs(pa.float64())),
            "score": pa.array([one.score for one in listed], pa.float64()),
            "tags": pa.array(tags, pairs(pa.string())),
        }
    )


def _listed(mapping: object) -> list[dict[str, object]] | None:
    return [{"key": k, "value": v} for k, v in mapping.items()] if isinstance(mapping, dict) else None
