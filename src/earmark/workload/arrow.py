"""Rectangles of numbers as columns of Arrow: what files and DataFrames of a workload hold.

Attribute i is called `ai`. A row may have fewer attributes than others: places of attribute UNUSED are left out.

    attr   -1 3 7     lo   _ 1 5     hi   _ 4 9        ranges      [{a3, 1, 4}, {a7, 5, 9}]
                                                       conditions  a3 BETWEEN 1 AND 4 AND a7 BETWEEN 5 AND 9
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from earmark.flat.arrays import I32, I64
from earmark.workload.standard import UNUSED, Workload


def ranges(data: Workload, **more: Any) -> pa.Array:
    """Return the subscriptions as lists of (attribute, lo, hi); `more` are further fields, such as a weight."""
    used = data.sub_attr != UNUSED
    fields = {"lo": data.sub_lo, "hi": data.sub_hi, **more}
    columns = [_names(data.sub_attr, data.attributes), *(pa.array(column[used]) for column in fields.values())]
    return pa.ListArray.from_arrays(_starts(used), pa.StructArray.from_arrays(columns, ["attribute", *fields]))


def conditions(data: Workload) -> pa.Array:
    """Return the subscriptions as SQL conditions."""
    rows = zip(*(column.tolist() for column in data[:3]), strict=True)
    return pa.array([" AND ".join(_constraints(*row)) for row in rows], pa.string())


def _constraints(attr: list[int], lo: list[int], hi: list[int]) -> list[str]:
    bounds = zip(attr, lo, hi, strict=True)
    return [f"a{a} BETWEEN {least} AND {greatest}" for a, least, greatest in bounds if a != UNUSED]


def maps(attr: I32, column: Any, attributes: int) -> pa.Array:
    """Return one map per row, from the names of its attributes to their values in a column."""
    used = attr != UNUSED
    return pa.MapArray.from_arrays(_starts(used), _names(attr, attributes), pa.array(column[used]))


def columns(attr: I32, value: I64, attributes: int) -> dict[str, pa.Array]:
    """Return events as one column per attribute, NULL where an event does not have it."""
    absent = np.ones((attributes, len(attr)), bool)
    values = np.zeros((attributes, len(attr)), np.int64)
    row, place = np.nonzero(attr != UNUSED)
    absent[attr[row, place], row] = False
    values[attr[row, place], row] = value[row, place]
    return {f"a{i}": pa.array(values[i], mask=absent[i]) for i in range(attributes)}


def _names(attr: I32, attributes: int) -> pa.Array:
    return pa.array([f"a{i}" for i in range(attributes)]).take(pa.array(attr[attr != UNUSED]))


def _starts(used: Any) -> pa.Array:
    return pa.array(np.append(0, used.sum(axis=1).cumsum()).astype(np.int32))
