"""The backward look at quotes, against a parser that reads forward, byte by byte."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.tabular.quotes import open_quote_line

MARK = b"\xef\xbb\xbf"


def read_forward(text: bytes) -> int | None:
    """The line of the quote that is still open at the end."""
    state, line, opened, i = "start", 1, 0, len(MARK) if text.startswith(MARK) else 0
    while i < len(text):
        byte = text[i : i + 1]
        if state == "start" and byte == b'"':
            state, opened = "quoted", line
        elif state == "quoted":
            if text[i : i + 2] == b'""':
                i += 1
            elif byte == b'"':
                state = "text"
        else:
            state = "start" if byte in b",\r\n" else "text"
        line += byte == b"\n"
        i += 1
    return opened if state == "quoted" else None


@given(st.lists(st.sampled_from([b'"', b'"', b'""', b"a", b",", b"\n", b"\r\n"]), max_size=20), st.booleans())
def test_it_says_what_a_forward_parser_says(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], mark: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "quotes.csv"
    text = (MARK if mark else b"") + b"".join(parts)
    path.write_bytes(text)
    assert open_quote_line(path) == open_quote_line(path, len(text)) == read_forward(text)


def test_only_the_end_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_bytes(b'a\n"x\n' + b"y\n" * 100)
    assert open_quote_line(path, 50) is None
    assert open_quote_line(path) == 2
    path.write_bytes(b'a\n"x\n' + b"y\n" * 100 + b'z"\n')
    assert open_quote_line(path) is None


def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    with path.open("wb") as file:
        file.truncate(200 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b'\n1,"x"\n')
    tracemalloc.start()
    try:
        assert open_quote_line(path) is None
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()
