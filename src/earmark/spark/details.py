"""Columns of the subscriptions of some answers: their condition, their tags, their payload; and how large they are.

An answer has them once for every event, so batches are cut by their bytes before any column is made. A payload knows
the bytes of its values without reading them; a condition has to be written for that, and what was written is kept for
the next answers of the same subscriptions, up to KEPT_BYTES.

Complexity: every subscription of a call is looked up once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from earmark.book.payload import Payload
from earmark.engine.version import Version
from earmark.flat.arrays import I64
from earmark.segment.explain import condition_text

TEXTS = {"condition": pa.string(), "tags": pa.map_(pa.string(), pa.string())}
"""Columns that are written from a segment; the others are payload."""
BLOCK = 4_096
"""Answers whose columns are measured at a time."""
KEPT_BYTES = 32 << 20
_ENTRY_BYTES = 256
"""About what Python needs to keep a string or tags, beside their own bytes."""


class Details:
    """These columns of the subscriptions of a version."""

    def __init__(self, version: Version, names: tuple[str, ...], payload: Callable[[], Payload]) -> None:
        self.version = version
        self.names = names
        self._payload = payload
        self._texts: dict[tuple[str, int], tuple[Any, int]] = {}
        self._bytes = 0

    def sizes(self, segments: I64, slots: I64) -> I64:
        """Return the bytes that each answer takes in these columns."""
        codes, place = np.unique(segments << 32 | slots, return_inverse=True)
        total = np.zeros(len(codes), np.int64)
        self._forget()
        for name in self.names:
            if name in TEXTS:
                total += np.array([self._text(name, code)[1] for code in codes.tolist()], np.int64)
            else:
                total += self._payload().sizes(name, self._sequences(codes))
        sizes: I64 = total[place]
        return sizes

    def columns(self, segments: I64, slots: I64) -> list[pa.Array]:
        """Return the columns of some answers."""
        codes, place = np.unique(segments << 32 | slots, return_inverse=True)
        made: list[pa.Array] = []
        for name in self.names:
            if name in TEXTS:
                values = pa.array([self._text(name, code)[0] for code in codes.tolist()], TEXTS[name])
            else:
                values = self._payload().column(name, self._sequences(codes))
            made.append(values.take(pa.array(place)))
        return made

    def _sequences(self, codes: I64) -> I64:
        """Return the sequences of subscriptions, by which their payload is stored; `codes` ascend."""
        numbers, begins = np.unique(codes >> 32, return_index=True)
        slots = np.split(codes & 0xFFFFFFFF, begins[1:])
        segments = [self.version.segments[number].segment for number in numbers.tolist()]
        own = [segment.arrays.sequence[some] for segment, some in zip(segments, slots, strict=False)]
        return np.concatenate([*own, np.empty(0, np.int64)])

    def _text(self, name: str, code: int) -> tuple[Any, int]:
        """Return a condition or tags, and their bytes."""
        known = self._texts.get((name, code))
        if known is None:
            segment, slot = self.version.segments[code >> 32].segment, code & 0xFFFFFFFF
            if name == "tags":
                tags = segment.tags(slot)
                value: Any = list(dict(tags).items())
                size = sum(len(one.encode()) for pair in value for one in pair)
            else:
                value = condition_text(segment, slot)
                size = len(value.encode())
            known = self._texts[name, code] = value, size
            self._bytes += size + _ENTRY_BYTES
        return known

    def _forget(self) -> None:
        if self._bytes > KEPT_BYTES:
            self._texts.clear()
            self._bytes = 0
