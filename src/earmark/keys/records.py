"""A schema as a record, without the keys of its constants, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from earmark.errors import require
from earmark.keys.numbers import check_numbers
from earmark.keys.schema import NUMBER, WIDE_NUMBER, Attribute, Schema, attribute_type, check_name
from earmark.keys.strings import StringKeys


def schema_record(schema: Schema) -> dict[str, Any]:
    """Attributes and zone as JSON."""
    return {
        "zone": schema.zone_name,
        "strict": schema.strict,
        "nan_is_null": schema.nan_is_null,
        "attributes": [
            {
                "name": a.name,
                "type": str(a.type) if a.type else None,
                "keyed": bool(a.type and a.type.keyed),
                "declared": a.declared,
                "origin": a.origin,
            }
            for a in schema
        ],
    }


def schema_of(record: Mapping[str, Any], strings: Callable[[int], Any] | None = None) -> Schema:
    """The inverse of `schema_record`; `strings(number)` gives the keys of an attribute's constants, if they matter."""
    schema = Schema(record["zone"], strict=bool(record["strict"]), nan_is_null=bool(record["nan_is_null"]))
    for number, entry in enumerate(record["attributes"]):
        name, type_ = entry["name"], entry["type"]
        check_name(name)
        require(name not in schema.by_name, f"the attribute {name!r} is listed twice")
        known = attribute_type(type_) if type_ is not None else None
        if known is not None and known.kind == NUMBER and entry["keyed"]:
            known = WIDE_NUMBER
        schema.put(Attribute(number, name, known, bool(entry["declared"]), str(entry["origin"])[:1000]))
        if known is not None and known.keyed and strings is not None:
            keys = strings(number)
            if known.kind == NUMBER and isinstance(keys, StringKeys):
                check_numbers(keys.constants())
            schema.strings[number] = keys
    return schema


def restored_strings(constants: list[bytes], keys: list[int]) -> StringKeys:
    """String keys from outside, checked."""
    strings = StringKeys.from_items(constants, keys)
    strings.check()
    return strings
