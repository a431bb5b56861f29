"""The split of CSV into records, against a parser that reads byte by byte."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.errors import EarmarkError
from earmark.tabular.csvfile import blocks

MARK = b"\xef\xbb\xbf"
PARTS = st.lists(st.sampled_from([b'"', b'"', b'""', b"a", b";", b"\n", b"\n", b"\r\n", b"\r"]), max_size=25)


def read_forward(text: bytes) -> tuple[list[tuple[bytes, int]], int | None]:
    """The records that are not blank, each with its line; and the line of a quote that is still open."""
    records, state, line, opened, i, start, first_line = [], "start", 1, 0, 0, 0, 1
    while i < len(text):
        byte = text[i : i + 1]
        ends = byte == b"\n" or (byte == b"\r" and text[i + 1 : i + 2] != b"\n")
        if state == "start" and byte == b'"':
            state, opened = "quoted", line
        elif state == "quoted":
            if text[i : i + 2] == b'""':
                i += 1
            elif byte == b'"':
                state = "text"
        else:
            state = "start" if byte in b";\r\n" else "text"
            if ends:
                records.append((text[start:i], first_line))
                start, first_line = i + 1, line + 1
        line += ends
        i += 1
    records.append((text[start:], first_line))
    kept = [(record.removesuffix(b"\r"), at) for record, at in records if record not in (b"", b"\r")]
    return kept, opened if state == "quoted" else None


def split(read: Callable[[int], bytes], size: int) -> list[tuple[bytes, int]]:
    found = []
    for text, starts, lines in blocks(read, ";", size):
        ends = [*starts[1:].tolist(), len(text)][: len(starts)]
        for start, end, line in zip(starts.tolist(), ends, lines.tolist(), strict=True):
            found.append((text[start:end].rstrip(b"\r\n"), line))
    return found


@given(PARTS, st.booleans())
def test_records_and_lines(parts: list[bytes], mark: bool) -> None:
    text = b"".join(parts)
    wanted, opened = read_forward(text)
    file = io.BytesIO((MARK if mark else b"") + text)
    if opened is not None:
        with pytest.raises(EarmarkError, match="never closed") as raised:
            split(file.read, 1 << 20)
        assert raised.value.line == opened
    else:
        assert split(file.read, 1 << 20) == [(record.rstrip(b"\r\n"), line) for record, line in wanted]


@given(PARTS, st.integers(3, 12))
def test_any_block_size_gives_the_same(parts: list[bytes], size: int) -> None:
    """Unless a record is too long for it."""
    text = b"".join(parts)
    wanted, opened = read_forward(text)
    try:
        found = split(io.BytesIO(text).read, size)
    except EarmarkError:
        found = None
    if found is None:
        assert opened is not None or max(len(record) for record, _ in wanted) + len(b"\r\n") > size
    else:
        assert opened is None
        assert found == [(record.rstrip(b"\r\n"), line) for record, line in wanted]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b'a;b\n1;"' + b"x\n" * 50, "a quote opens here and is never closed"),
        (b'a;b\n1;"' + b"x\n" * 50 + b'"', "longer than"),
        (b'a;b\n1;"' + b'x""\n' * 50 + b'"\n2;3\n', "longer than"),
        (b"a;b\n" + b"x" * 100, "longer than"),
        # A piece ends right after the quote that opens a field.
        (b'a;b\n12345678901234;"' + b"x" * 30, "a quote opens here and is never closed"),
        (b'a;b\n12345678901234;"' + b'";x\n' * 9, "longer than"),
    ],
)
def test_what_is_wrong_with_a_long_record(text: bytes, told: str) -> None:
    with pytest.raises(EarmarkError, match=told) as raised:
        split(io.BytesIO(text).read, 10)
    assert raised.value.line == 2


def test_a_large_text_is_not_held_in_memory() -> None:
    pieces = iter([b"a;b\n", *([b'1;"' + b"x\n" * 50_000 + b'"\n'] * 500), b""])
    tracemalloc.start()
    try:
        assert len(split(lambda _: next(pieces), 1 << 20)) == 501
        assert tracemalloc.get_traced_memory()[1] < 80 << 20  # what `split` keeps, and some blocks
    finally:
        tracemalloc.stop()
