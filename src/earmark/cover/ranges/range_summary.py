"""Does anyone want these events? Answered from the file of a range summary, without the subscriptions.

mics.txt, section 4.3 (Algorithm 2) and section 6.1: a broker or a publishing client needs the ranges and the space, and
turns events into numbers itself. A file has both (`Summary.to_arrow`), as Parquet:

    columns     first  last                        ranges of Hilbert's curve, ascending
    metadata    earmark.space                      for people: where cells begin, >= 10  > 'Oslo'
                earmark.keys                       JSON: version, zone, bits, and for every axis
                  attribute, type, declared        so that a value means here what it meant to the subscriptions
                  keyed                            whether keys come from a dictionary (strings, wide numbers)
                  keys                             where cells begin; if keyed, [constant in hex, 0 or 1]

A key is a number that keeps order (`keys/cuts.py`), the same everywhere, but for those of a dictionary, which depend on
which constants there are. So a cut between such keys is stored as the constant at which it is (0) or just above which
it is (1), and gets a key among the cuts when the file is opened; a string that is not among them falls between two.

Whatever is read is treated as hostile: sizes first, every field by type, then all that kernels rely on.

Invariant: an event that a subscription takes is wanted.
Complexity: opening O(ranges + cuts); an event as in `summary.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from earmark.cover.merging.traffic import Flags
from earmark.cover.ranges.summary import KEYS_KEY, VERSION, places
from earmark.cover.ranges.table import Ranges
from earmark.curves.hilbert import MOST_DIMENSIONS
from earmark.curves.space import MOST_BITS, Space, space_of
from earmark.errors import EarmarkError, TableError
from earmark.events.frames import encoded
from earmark.flat.arrays import I64, frozen
from earmark.keys.numbers import check_numbers
from earmark.keys.schema import INT64_MAX, INT64_MIN, NUMBER, WIDE_NUMBER, Attribute, Schema, attribute_type, check_name
from earmark.keys.strings import StringKeys
from earmark.language.words import counted

if TYPE_CHECKING:
    import pyarrow as pa

MOST_RANGES = 1 << 26
MOST_METADATA = 64 << 20
"""Rows and bytes of metadata that a file may have."""


@dataclass(frozen=True, slots=True, eq=False)
class RangeSummary:
    """Ranges that were written elsewhere, the space whose cells they number, and how values become keys in it."""

    schema: Schema
    space: Space
    ranges: Ranges

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """The summary in a Parquet file, as `earmark merge --ranges` writes it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not Path(path).is_file():
            raise TableError(f"there is no file {str(path)!r}")
        if Path(path).suffix.lower() != ".parquet":
            raise TableError(f"{str(path)!r} is no .parquet file; no other has the grid that a summary's ranges need")
        try:
            with pq.ParquetFile(path) as file:
                if file.metadata.num_rows > MOST_RANGES:
                    raise TableError(f"it has {file.metadata.num_rows:,} rows; a summary has at most {MOST_RANGES:,}")
                _check_columns(file.schema_arrow)
                table = file.read()
            return cls.from_arrow(table)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
            said = " ".join(str(problem).split())[:300]
            raise TableError(f"{str(path)!r} cannot be read as a range summary: {said}") from None
        except TableError as problem:
            raise TableError(f"{str(path)!r} cannot be read as a range summary: {problem}") from None

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Self:
        """The summary in an Arrow table, as `Summary.to_arrow` makes it."""
        import pyarrow as pa

        if not isinstance(table, pa.Table):
            raise TableError(f"expected a range summary as an Arrow table, got {type(table).__name__}")
        _check_columns(table.schema)
        schema, space = _grid(_record(table.schema.metadata or {}))
        first, last = (_numbers(table.column(name)) for name in ("first", "last"))
        cells = 1 << (space.axes * int(space.bits[0]))
        if len(first) and not (
            first[0] >= 0 and last[-1] < cells and (first <= last).all() and (last[:-1] < first[1:]).all()
        ):
            raise TableError(f"its ranges are not ascending, apart, and from 0 to {cells - 1}")
        return cls(schema, space, Ranges(frozen(first), frozen(last)))

    def __len__(self) -> int:
        """How many ranges there are."""
        return len(self.ranges.first)

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.schema.names))
        return f"<RangeSummary: {counted(len(self), 'range')} on {names}>"

    def wants(self, events: Any) -> Flags:
        """Which events to send: every one that a subscription behind this takes, and some others.

        Events are a sequence of mappings, an Arrow table or record batch, or a pandas or polars frame. Attributes
        without an axis are not looked at.
        """
        return places(self.space, self.ranges, encoded(self.schema, events))[0]


# --- what a file says --------------------------------------------------------------------------------------------


def _check_columns(schema: pa.Schema) -> None:
    import pyarrow as pa

    try:
        columns = [(field.name, field.type) for field in schema]
    except UnicodeDecodeError:
        raise TableError("the name of a column is not UTF-8") from None
    if columns != [("first", pa.int64()), ("last", pa.int64())]:
        raise TableError("it does not have the columns first and last of 64-bit integers, and no others")


def _numbers(column: pa.ChunkedArray) -> I64:
    if column.null_count:
        raise TableError("a range has no beginning or no end")
    numbers: I64 = np.array(column, np.int64)
    return numbers


def _record(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    """What the metadata say, as far as it is JSON of this version."""
    text = metadata.get(KEYS_KEY, b"")
    if not text or len(text) > MOST_METADATA:
        raise TableError(f"its metadata {KEYS_KEY.decode()!r}, the grid, are missing or too long")
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise TableError(f"its metadata {KEYS_KEY.decode()!r}, the grid, are not JSON") from None
    version = record.get("version") if isinstance(record, dict) else None
    if type(version) is not int or version != VERSION:
        raise TableError(f"its version is {str(version)[:50]}; this earmark reads {VERSION}: make the summary again")
    found: dict[str, Any] = record
    return found


def _grid(record: dict[str, Any]) -> tuple[Schema, Space]:
    """The attributes and the space of a record."""
    axes, bits = _field(record, "axes", list), _field(record, "bits", int)
    if not (1 <= len(axes) <= MOST_DIMENSIONS and 1 <= bits <= MOST_BITS):
        raise TableError(f"it has not 1 to {MOST_DIMENSIONS} axes of 1 to {MOST_BITS} bits")
    try:
        schema = Schema(_field(record, "zone", str))
        cuts = [_axis(schema, axis, (1 << bits) - 2) for axis in axes]
        if not all((one[:-1] < one[1:]).all() for one in cuts):
            raise TableError("the cuts of an axis do not ascend")
        return schema, space_of(np.arange(len(axes), dtype=np.int32), cuts, bits)
    except TableError:
        raise
    except EarmarkError as problem:
        raise TableError(f"its grid makes no sense: {str(problem)[:300]}") from None


def _axis(schema: Schema, axis: Any, most: int) -> I64:
    """Add the attribute of an axis to the schema; its cuts in the keys that it has there."""
    if not isinstance(axis, dict):
        raise TableError("an axis is not described by names and values")
    name, keys = _field(axis, "attribute", str), _field(axis, "keys", list)
    if len(keys) > most:
        raise TableError(f"expected at most {most:,} cuts on an axis, got {len(keys):,}")
    check_name(name)
    if name in schema.by_name:
        raise TableError(f"the attribute {name!r} has two axes")
    type_ = attribute_type(_field(axis, "type", str)) if axis.get("type") is not None else None
    number = len(schema)
    if _field(axis, "keyed", bool) and type_ is not None and type_.kind == NUMBER:
        type_ = WIDE_NUMBER
    schema.put(Attribute(number, name, type_, _field(axis, "declared", bool), "the range summary"))
    if type_ is not None and type_.keyed:
        cuts = _constant_cuts(schema.strings[number], keys)
        if type_.kind == NUMBER:
            _check_numbers(schema.strings[number])
        return cuts
    if not all(type(key) is int and INT64_MIN <= key <= INT64_MAX for key in keys):
        raise TableError(f"a key of {name!r} is not a 64-bit integer")
    return np.array(keys, np.int64)


def _check_numbers(constants: StringKeys) -> None:
    try:
        check_numbers(constants.constants())
    except AssertionError as problem:
        raise TableError(str(problem)) from None


def _constant_cuts(strings: StringKeys, keys: list[Any]) -> I64:
    """Cuts at constants and just above them, as keys among these constants alone."""
    places = []
    for key in keys:
        if not (isinstance(key, list) and len(key) == 2 and isinstance(key[0], str) and type(key[1]) is int):
            raise TableError("a cut between strings is not a constant in hex, and 0 or 1")
        try:
            places.append((bytes.fromhex(key[0]), key[1]))
        except ValueError:
            raise TableError(f"{key[0][:50]!r} is not a constant in hex") from None
    if not all(above in (0, 1) for _, above in places):
        raise TableError("a cut between strings is at a constant, 0, or just above it, 1")
    strings.insert(constant for constant, _ in places)
    return np.array([strings.of_constant(constant) + above for constant, above in places], np.int64)


def _field(record: dict[str, Any], name: str, kind: type[Any]) -> Any:
    value = record.get(name)
    if type(value) is not kind:
        raise TableError(f"its grid has {name!r} {str(value)[:50]!r}, which is not a JSON {kind.__name__}")
    return value
