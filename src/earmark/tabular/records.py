"""CSV text in blocks of whole records, with the line on which each record begins.

A line break inside a quoted field does not end a record. Whether a break is inside one is found from runs of quotes,
and from what is before each run:

    run    before the run             in a quoted field           outside
    odd    text                       ends the field              is text            A: outside, in any case
    even   text                       is text ("" is a quote)     is text            B: changes nothing
    odd    start, comma or break      ends the field              opens a field      C: changes sides
    even   start, comma or break      is text                     an empty field     D: changes nothing

**Invariant**: a block begins outside; after a run of kind A we are outside, and each run of kind C since then changes
sides. Example: in `a,b⏎1,"x⏎2,y⏎` the only run is of kind C, so only the first break ends a record, and the text ends
inside the field that the quote opens.

**Complexity**: O(bytes), a few passes of numpy over each block; memory for two blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError

_QUOTE, _LF, _CR = ord('"'), ord("\n"), ord("\r")
_MARK = b"\xef\xbb\xbf"

Places = NDArray[np.int64]


class TextBlock(NamedTuple):
    """Whole records: the text, where each record that is not blank begins, and on which line."""

    text: bytes
    starts: Places
    lines: Places


class Breaks(NamedTuple):
    """The line breaks of a text that begins outside quotes, which of them end records, and the quote still open."""

    at: Places
    outside: NDArray[np.bool_]
    open_quote: int | None


def blocks(read: Callable[[int], bytes], delimiter: str, size: int) -> Iterator[TextBlock]:
    """Yield the records of a text that `read` returns piece by piece; none may be longer than `size` bytes.

    An error has the line on which the problem begins.
    """
    rest, line, final = b"", 1, False
    first = True
    while not final:
        piece = read(size)
        final = not piece
        text = rest + piece
        if first:
            text, first = text.removeprefix(_MARK), False
        breaks = line_breaks(text, delimiter, final)
        if final and breaks.open_quote is not None:
            raise _never_closed(line, breaks)
        end = _end(text, breaks, final)
        if end == 0 and len(text) > size:
            raise _too_long(read, delimiter, size, text, line, breaks)
        if end:
            yield _block(text[:end], breaks, line)
        rest = text[end:]
        line += int(np.count_nonzero(breaks.at < end))


def line_breaks(text: bytes, delimiter: str, final: bool) -> Breaks:
    """Find the line breaks of a text; `final` if nothing comes after it."""
    data = np.frombuffer(text, np.uint8)
    at = np.flatnonzero(data == _LF)
    if text.count(b"\r") > text.count(b"\r\n"):
        alone = np.flatnonzero(data == _CR)
        followed = np.append(data, _LF if not final else 0)[alone + 1]  # at the end of a piece, \n may follow
        at = np.sort(np.concatenate([at, alone[followed != _LF]]))
    quotes = np.flatnonzero(data == _QUOTE) if b'"' in text else at[:0]
    if not len(quotes):
        return Breaks(at, np.ones(len(at), bool), None)
    heads = np.flatnonzero(np.diff(quotes, prepend=-2) != 1)
    odd = quotes[heads][np.diff(heads, append=len(quotes)) % 2 == 1]
    before = np.where(odd > 0, data[odd - 1], _LF)
    turns = np.isin(before, (ord(delimiter), _LF, _CR))  # kind C; the others are of kind A
    sides = np.cumsum(turns)
    last = np.maximum.accumulate(np.where(turns, 0, np.arange(1, len(odd) + 1)))  # kind A, counted from 1
    inside = np.append(0, (sides - np.append(0, sides)[last]) % 2).astype(bool)
    outside = ~inside[np.searchsorted(odd, at)]
    return Breaks(at, outside, int(odd[-1]) if inside[-1] else None)


def _end(text: bytes, breaks: Breaks, final: bool) -> int:
    """Return where the last whole record ends."""
    if final:
        return len(text)
    ends = breaks.at[breaks.outside]
    return int(ends[-1]) + 1 if len(ends) else 0


def _block(text: bytes, breaks: Breaks, line: int) -> TextBlock:
    data = np.frombuffer(text, np.uint8)
    numbers = np.flatnonzero(breaks.outside)
    starts = np.append(0, breaks.at[numbers] + 1)
    lines = line + np.append(0, numbers + 1)
    lengths = np.diff(starts, append=len(text) + 1) - 1
    blank = (lengths <= 0) | ((lengths == 1) & (np.append(data, 0)[np.minimum(starts, len(data))] == _CR))
    return TextBlock(text, starts[~blank], lines[~blank])


def _never_closed(line: int, breaks: Breaks) -> EarmarkError:
    before = int(np.searchsorted(breaks.at, breaks.open_quote or 0))
    return EarmarkError("a quote opens here and is never closed", line=line + before)


def _too_long(
    read: Callable[[int], bytes], delimiter: str, size: int, text: bytes, line: int, breaks: Breaks
) -> EarmarkError:
    """Return what is wrong with a record that does not end: read on to see whether a quote is never closed."""
    ahead = breaks
    while ahead.open_quote is not None:
        piece = read(size)
        text = _still_open(text, ahead.open_quote) + piece
        ahead = line_breaks(text, delimiter, not piece)
        if ahead.outside.any():
            break
        if not piece and ahead.open_quote is not None:
            return _never_closed(line, breaks)
    return EarmarkError(f"longer than {size >> 20} MB", line=line)


def _still_open(text: bytes, open_quote: int) -> bytes:
    """Return a short text that leaves a quote open as this one does, with its last quotes, which more may follow."""
    end = len(text.rstrip(b'"'))
    return (b"" if end == open_quote else b'"x') + text[end:]
