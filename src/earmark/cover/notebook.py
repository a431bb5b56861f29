"""Results as HTML tables, for notebooks: what `_repr_html_` returns.

Conditions and ids are whatever users typed, so every cell is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import Any

SHOWN = 20
"""Rows that a table shows."""


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], count: int) -> str:
    """A table of the first rows, with its caption, and how many more there are; None is an empty cell."""
    lines = [_row("th", columns), *(_row("td", row) for row in islice(rows, SHOWN))]
    if count > SHOWN:
        lines.append(f'<tr><td colspan="{len(columns)}">… and {count - SHOWN:,} more</td></tr>')
    return f"<table><caption>{escape(caption)}</caption>{''.join(lines if count else [])}</table>"


def _row(tag: str, cells: Sequence[Any]) -> str:
    texts = ("" if cell is None else escape(str(cell)) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"
