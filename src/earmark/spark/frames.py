"""Which column of a DataFrame, or which field of a struct, is which attribute?

An attribute is the column of its name. A dotted name is also a field inside structs (`user.age`), or a value of a map
column by its key (`tags.colour`), as in Spark SQL. A struct of exactly `lo` and `hi` under an attribute's own name
holds intervals. An attribute that is nowhere is NULL in every event, as a Matcher has it.

Names follow the session: unless it is case-sensitive, case does not count, and attributes that differ only by it are
refused, since nobody could tell their columns apart.

`Kind` hides whether a type is Spark's (on the driver) or Arrow's (inside a SQL function): one set of rules for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from earmark.errors import EarmarkError, EventError
from earmark.events.frames import is_text
from earmark.events.mappings import MAX_NESTED
from earmark.keys.schema import DATE, TIMESTAMP, Schema
from earmark.language.zones import zone_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

BINARY = "UTF8_BINARY"
"""The collation of strings that compare by their bytes."""
_UTC = frozenset({"UTC", "Z", "Etc/UTC", "Etc/UCT", "Zulu", "UCT", "Universal", "GMT", "Etc/GMT", "+00:00", "GMT+0"})


class Kind(NamedTuple):
    """As much of a type as names depend on."""

    fields: tuple[tuple[str, Any], ...] | None
    """Names and types of a struct's fields; None for anything else."""
    text_map: bool
    """A map with texts as keys."""


def spark_kind(type_: DataType) -> Kind:
    """The kind of a Spark type."""
    from pyspark.sql.types import MapType, StringType, StructType

    fields = tuple((f.name, f.dataType) for f in type_.fields) if isinstance(type_, StructType) else None
    return Kind(fields, isinstance(type_, MapType) and isinstance(type_.keyType, StringType))


def arrow_kind(type_: pa.DataType) -> Kind:
    """The kind of an Arrow type."""
    fields = tuple((f.name, f.type) for f in type_) if pa.types.is_struct(type_) else None
    return Kind(fields, pa.types.is_map(type_) and is_text(type_.key_type))


class Place(NamedTuple):
    """Where an attribute's values are: fields from the outside in, then perhaps the key of a map."""

    attribute: str
    path: tuple[str, ...]
    key: str | None
    type: Any


def places(columns: Iterable[tuple[str, Any]], attributes: Sequence[str], sensitive: bool, kind: Any) -> list[Place]:
    """Where the attributes are, in their order; those that are nowhere are left out."""

    def norm(name: str) -> str:
        return name if sensitive else name.lower()

    wanted = {norm(name): name for name in attributes}
    heads = {name[:i] for name in wanted for i, letter in enumerate(name) if letter == "."}
    found: dict[str, Place] = {}

    def note(name: str, path: tuple[str, ...], key: str | None, type_: Any) -> None:
        attribute = wanted[norm(name)]
        if attribute in found:
            raise EventError(f"the events have two columns for attribute {attribute!r}")
        own = kind(type_).fields
        if own is not None and {n for n, _ in own} != {"lo", "hi"}:
            raise EventError(f"attribute {attribute!r}: a struct column holds intervals, with fields lo and hi")
        found[attribute] = Place(attribute, path, key, type_)

    def visit(prefix: str, path: tuple[str, ...], type_: Any) -> None:
        if norm(prefix) in wanted:
            note(prefix, path, None, type_)
        elif norm(prefix) in heads:
            seen = kind(type_)
            if seen.fields is not None:
                if len(path) > MAX_NESTED:
                    raise EventError(f"{prefix!r} nests deeper than {MAX_NESTED} levels")
                for name, inner in seen.fields:
                    visit(f"{prefix}.{name}", (*path, name), inner)
            elif seen.text_map:
                below = norm(prefix) + "."
                for name in [one for one in wanted if one.startswith(below)]:
                    note(name, path, wanted[name][len(below) :], _value_type(type_))

    for name, type_ in columns:
        visit(name, (name,), type_)
    return [found[name] for name in attributes if name in found]


def _value_type(type_: Any) -> Any:
    return type_.item_type if isinstance(type_, pa.DataType) else type_.valueType


# --- types of columns ----------------------------------------------------------------------------------------


def struct_of(types: Mapping[str, DataType]) -> StructType:
    """A schema of these columns, each of which may be NULL."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(name, type_, True) for name, type_ in types.items()])


def id_type(integers: bool) -> DataType:
    """The Spark type of ids, which are integers or texts."""
    from pyspark.sql.types import LongType, StringType

    return LongType() if integers else StringType()


def arrow_id_type(integers: bool) -> pa.DataType:
    """The same in Arrow."""
    return pa.int64() if integers else pa.string()


# --- the session ---------------------------------------------------------------------------------------------


def quoted(name: str) -> str:
    """A column's name as Spark takes it literally."""
    return "`" + name.replace("`", "``") + "`"


def alike(names: Iterable[str], sensitive: bool) -> dict[str, tuple[str, str]]:
    """Names that Spark cannot tell apart: by name, the first two that are the same to it."""
    seen: dict[str, list[str]] = {}
    for name in names:
        seen.setdefault(name if sensitive else name.lower(), []).append(name)
    return {name: (own[0], own[1]) for own in seen.values() if len(own) > 1 for name in own}


def is_case_sensitive(spark: SparkSession) -> bool:
    """Whether names that differ by case are two names in this session."""
    return str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def refuse_case_variants(spark: SparkSession, names: Iterable[str]) -> None:
    """Attributes that the session could not tell apart are an error."""
    pairs = alike(names, is_case_sensitive(spark))
    if pairs:
        one, other = next(iter(pairs.values()))
        raise EarmarkError(
            f"the attributes {one!r} and {other!r} differ only by case, which this session does not tell apart; "
            "rename one, or set spark.sql.caseSensitive to true"
        )


def session_zone(spark: SparkSession) -> str:
    """The session's time zone."""
    zone = spark.conf.get("spark.sql.session.timeZone", "UTC") or "UTC"
    return "UTC" if zone in _UTC else zone


def check_zone(spark: SparkSession, schema: Schema) -> None:
    """Times must mean the same to the session and to the snapshot."""
    moments = [a.name for a in schema if a.type is not None and a.type.kind in (DATE, TIMESTAMP)]
    zone = session_zone(spark)
    if moments and zone != schema.zone_name and zone_of(zone) != schema.zone:
        raise EarmarkError(
            f"this session's time zone is {zone!r}, but the snapshot reads times such as {moments[0]!r} in "
            f"{schema.zone_name!r}; set spark.sql.session.timeZone to that, or publish with zone={zone!r}"
        )
