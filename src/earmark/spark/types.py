"""Can a column of a DataFrame hold the values of an attribute? Answered on the driver, before any task runs.

| attribute            | columns                                                                            |
|----------------------|------------------------------------------------------------------------------------|
| number, decimal(p,s) | TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL of any size                 |
| integer              | the same; a value with a fraction cannot be read                                   |
| float                | the same without DECIMAL                                                           |
| boolean              | BOOLEAN                                                                            |
| string               | STRING, VARCHAR, CHAR, with the collation UTF8_BINARY                              |
| date                 | DATE, STRING                                                                       |
| timestamp            | TIMESTAMP, TIMESTAMP_NTZ, DATE, STRING                                             |
| of which only NULL   | anything                                                                           |
| is asked             |                                                                                    |

A struct of `lo` and `hi` has two such fields. VOID, the type of a NULL literal, goes with everything.

What is left for the workers are single values: a fraction for an integer, a number with more digits than a decimal has,
a string that is not a date, bytes that are not UTF-8, an interval that is upside down. `on_error` decides about those.
"""

from __future__ import annotations

from pyspark.sql.types import DataType, StructType

from earmark.errors import AttributeTypeError, EventError
from earmark.keys.schema import Attribute, Kind

BINARY = "UTF8_BINARY"
"""The collation of strings that compare by their bytes."""
_WHOLE = frozenset({"byte", "short", "integer", "long"})
_FLOATING = frozenset({"float", "double"})
_STRINGS = frozenset({"string", "varchar", "char"})
_NUMBERS = _WHOLE | _FLOATING | {"decimal"}
_SUITABLE = {
    Kind.NUMBER: _NUMBERS,
    Kind.DECIMAL: _NUMBERS,
    Kind.INTEGER: _NUMBERS,
    Kind.FLOAT: _WHOLE | _FLOATING,
    Kind.BOOLEAN: frozenset({"boolean"}),
    Kind.STRING: _STRINGS,
    Kind.DATE: _STRINGS | {"date"},
    Kind.TIMESTAMP: _STRINGS | {"date", "timestamp", "timestamp_ntz"},
}
_WORDS = {
    Kind.NUMBER: "a numeric type",
    Kind.DECIMAL: "a numeric type",
    Kind.INTEGER: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.STRING: "STRING",
    Kind.DATE: "DATE or STRING",
    Kind.TIMESTAMP: "TIMESTAMP, DATE or STRING",
}


def suits(attribute: Attribute, type_: DataType) -> bool:
    """Return whether a column of this type can hold values of an attribute."""
    name = type_.typeName()
    return attribute.type is None or name == "void" or name in _SUITABLE[attribute.type.kind]


def is_numeric(type_: DataType) -> bool:
    """Return whether the values of a type are numbers, or all NULL."""
    return type_.typeName() in _NUMBERS or type_.typeName() == "void"


def check_type(attribute: Attribute, type_: DataType) -> None:
    """Raise unless a column of this type, or of structs of `lo` and `hi`, can hold values of an attribute."""
    inner = [field.dataType for field in type_.fields] if isinstance(type_, StructType) else [type_]
    for own in inner:
        if not suits(attribute, own):
            assert attribute.type is not None
            if attribute.type.kind == Kind.FLOAT and own.typeName() == "decimal":
                hint = "declare it as number or decimal(p, s)"
            else:
                hint = f"cast it to {_WORDS[attribute.type.kind]}"
            raise AttributeTypeError(
                f"{attribute.expected()}, got a column of type {type_.simpleString()}: {hint}", attribute=attribute.name
            )
        refuse_collated(attribute.name, own)


def refuse_collated(name: str, type_: DataType) -> None:
    """Raise for strings that Spark would not compare by their bytes, as earmark does."""
    collation = getattr(type_, "collation", BINARY)
    if collation != BINARY:
        raise EventError(
            f"the strings of {name!r} have the collation {collation}, but conditions compare strings by their "
            f"bytes; give the events this column with COLLATE {BINARY}"
        )
