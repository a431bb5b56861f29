"""Does a CSV file end inside a quoted field? Then one forgotten quote has swallowed everything after it.

Nobody can tell while reading, for a quoted field may hold line breaks. But the answer is found from the end of the
file backwards. Look at each run of quotes, and at what stands before it:

    run    before the run             in a quoted field           outside
    odd    text                       ends the field              is text            A: outside, in any case
    even   text                       is text ("" is a quote)     is text            B: changes nothing
    odd    start, comma or break      ends the field              opens a field      C: changes sides
    even   start, comma or break      is text                     an empty field     D: changes nothing

**Invariant**: after a run of kind A, and at the start of the file, we are outside; each run of kind C since then
changes sides. Example: in `a,b⏎1,"x⏎2,y⏎` the only run is of kind C, so the file ends inside the field that it opens.

**Complexity**: the last run nearly always ends a field, kind A, and that is all that is looked at.
"""

from __future__ import annotations

import mmap
import os

from earmark.tabular.read import Name

_MARK = b"\xef\xbb\xbf"


def open_quote_line(path: Name, within: int | None = None) -> int | None:
    """The line with the quote that is never closed, if there is one. O(size of the file) at worst.

    `within`: one that was opened more than so many bytes before the end may be overlooked; then O(within), mostly.
    """
    if not os.path.getsize(path):
        return None
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        at = _open_quote(text, 0 if within is None else max(len(text) - within, 0))
        return None if at is None else _line(text, at)


def _open_quote(text: mmap.mmap, least: int) -> int | None:
    """Where the quote stands that opens the field in which the file ends. Without a quote after `least`: None."""
    turns: list[int] = []  # runs of kind C, the last first
    last = text.rfind(b'"', least)
    while last >= 0:
        first = last
        while first > 0 and text[first - 1] == ord('"'):
            first -= 1
        if (last - first) % 2 == 0:  # an odd number of quotes
            if first > 0 and text[first - 1] not in b",\n\r" and not (first == len(_MARK) and text[:first] == _MARK):
                break
            turns.append(first)
        last = text.rfind(b'"', 0, first)
    return turns[0] if len(turns) % 2 else None


def _line(text: mmap.mmap, at: int) -> int:
    """The line of a byte, counted from 1."""
    text.seek(0)
    line, done = 1, 0
    while done < at:
        part = text.read(min(1 << 20, at - done))
        line += part.count(b"\n")
        done += len(part)
    return line
