"""Subscriptions as they were given: one by one, or as a frame of plain columns that any library can carry.

    id   condition   weights                            score   tags
    1    'a > 3'     [{key: 'a', value: 0.5}]           0.0     [{key: 'tenant', value: 'acme'}]

Weights and tags are lists of pairs, not Arrow maps, which pandas and polars do not give back as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from earmark.segment.explain import condition_text
from earmark.segment.subscription import Subscription
from earmark.segment.table import Table

if TYPE_CHECKING:
    import pyarrow as pa


def subscription_at(table: Table, slot: int) -> Subscription:
    """The subscription of a slot, as it was given."""
    names = table.schema.names
    weights = {names[n]: w for n, w in table.weights(slot).items() if w != 1.0}
    score = float(table.arrays.score[slot]) if len(table.arrays.score) else 0.0
    tags = dict(table.tags(slot))
    return Subscription(table.ids[slot], condition_text(table, slot), weights or None, score, tags or None)


def to_frame(table: Table) -> pa.Table:
    """The living subscriptions in order of insertion."""
    import pyarrow as pa

    def pairs(value: pa.DataType) -> pa.DataType:
        return pa.list_(pa.struct({"key": pa.string(), "value": value}))

    slots = table.live_slots().tolist()
    listed = [subscription_at(table, slot) for slot in slots]
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
