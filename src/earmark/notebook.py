"""How results look in a notebook: `_repr_html_` of explanations, audits and merges. Everything in a cell is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

SHOWN = 20
"""Rows that a table shows, where there may be many."""


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], count: int | None = None) -> str:
    """A captioned table of plain cells; None is an empty one.

    With a `count`, of rows that there are, it shows the first ones, and says how many more there are.

    >>> html_table("1 < 2", ["a"], [["<b>"]])
    '<table><caption>1 &lt; 2</caption><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    lines = [_row("th", columns), *(_row("td", row) for row in islice(rows, None if count is None else SHOWN))]
    if count is not None and count > SHOWN:
        lines.append(f'<tr><td colspan="{len(columns)}">… and {count - SHOWN:,} more</td></tr>')
    return f"<table><caption>{escape(caption)}</caption>{''.join([] if count == 0 else lines)}</table>"


def _row(tag: str, cells: Sequence[object]) -> str:
    texts = ("" if cell is None else escape(str(cell)) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"
