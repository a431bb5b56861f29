"""The string constants of a schema, and their keys, as packed files.

    keys.4.start keys.4.bytes       the constants of attribute 4, in order, as one run of bytes
    keys.4.keys                     the key of each

A version lists one file, or two: the constants of an older version, and those that came since ('' is in both). Keys
never change within a generation, so what an older file says stays right; where they do change all are written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.book.packed_file import PackedFile, write_packed
from earmark.errors import require
from earmark.flat.arrays import I64, packed, unpacked
from earmark.keys.mapped_strings import MappedStrings
from earmark.keys.schema import Schema
from earmark.keys.strings import StringKeys

KIND = "keys"
_PREFIX = "keys."
_MOST_SINCE = 1 / 2
"""When so large a share of the constants came since the first file, all are written again."""


def keys_arrays(strings: Mapping[int, Any]) -> dict[str, NDArray[Any]]:
    """The constants of attributes, by number, and their keys."""
    return _arrays({number: own.items() for number, own in strings.items()})


def _arrays(items: Mapping[int, tuple[list[bytes], I64]]) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    for number, (constants, keys) in items.items():
        texts = packed(constants)
        for part, array in (("start", texts.start), ("bytes", texts.joined), ("keys", keys)):
            arrays[f"{_PREFIX}{number}.{part}"] = array
    return arrays


def read_keys(files: Sequence[PackedFile], in_place: bool) -> Callable[[int], Any]:
    """What gives the keys of an attribute: `StringKeys`, checked, or `MappedStrings` over the files."""

    def strings(number: int) -> Any:
        having = [file for file in files if f"{_PREFIX}{number}.keys" in file.arrays]
        require(having, f"the keys of attribute {number} are not there")
        parts = [
            (file.array(f"{_PREFIX}{number}.start", np.int64), file.array(f"{_PREFIX}{number}.bytes", np.uint8),
             file.array(f"{_PREFIX}{number}.keys", np.int64))
            for file in having
        ]  # fmt: skip
        if in_place:
            mapped = [MappedStrings(*part) for part in parts]
            return mapped[0] if len(mapped) == 1 else mapped[0].with_more(mapped[1])
        made = StringKeys.from_items(unpacked(*parts[0][:2]), parts[0][2].tolist())
        for start, joined, keys in parts[1:]:
            made.take(unpacked(start, joined), keys.tolist())
        made.check()
        return made

    return strings


@dataclass
class StoredKeys:
    """The files in which the keys of a schema are stored, so that a later version lists them again."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    first: dict[int, tuple[StringKeys | None, int]] = field(default_factory=dict)
    """Of the first file, by attribute: the keys, and how many constants of them it has; None for keys not in use."""
    sizes: dict[int, int] = field(default_factory=dict)
    """By attribute: how many constants all files have."""

    @classmethod
    def of(cls, entries: Sequence[Mapping[str, Any]], files: Sequence[PackedFile], schema: Schema) -> StoredKeys:
        """What was read from these files."""
        made = cls([dict(entry) for entry in entries])
        for at, file in enumerate(files):
            for name in file.arrays:
                if not name.endswith(".keys"):
                    continue
                number = int(name.split(".")[1])
                if at == 0:
                    made.first[number] = (schema.strings.get(number), len(file.arrays[name]))
                elif number not in made.first:
                    made.first[number] = (schema.strings.get(number), 0)
        made.sizes = {number: len(own) for number, own in schema.strings.items()}
        return made

    def written(self, schema: Schema, new_file: Callable[[], Path]) -> StoredKeys:
        """The same after the keys of a schema were stored: in these files, in one more, or in a new one alone."""
        strings = schema.strings
        if not strings:
            return StoredKeys()
        follows = bool(self.entries) and all(self._has(number, own) for number, own in strings.items())
        if follows and all(self.sizes.get(number) == len(own) for number, own in strings.items()):
            return self
        before = {number: self.first.get(number, (own, 0))[1] for number, own in strings.items()}
        total, known = sum(map(len, strings.values())), sum(before.values())
        if not follows or total - known > _MOST_SINCE * total:
            entry = write_packed(new_file(), KIND, {}, keys_arrays(strings))
            sizes = {number: len(own) for number, own in strings.items()}
            return StoredKeys([entry._asdict()], {n: (own, len(own)) for n, own in strings.items()}, sizes)
        since = {n: own.since(before[n]) for n, own in strings.items() if len(own) > before[n]}
        entry = write_packed(new_file(), KIND, {}, _arrays(since))
        first = {**{n: (own, 0) for n, own in strings.items()}, **self.first}
        return StoredKeys([self.entries[0], entry._asdict()], first, {n: len(own) for n, own in strings.items()})

    def _has(self, number: int, strings: StringKeys) -> bool:
        """Whether the files have nothing of this attribute but keys of these."""
        return number not in self.first or self.first[number][0] is strings
