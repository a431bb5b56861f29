"""How results look in a notebook: `_repr_html_` of explanations, audits and merges. Everything in a cell is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A captioned table of plain cells.

    >>> html_table("1 < 2", ["a"], [["<b>"]])
    '<table><caption>1 &lt; 2</caption><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>"
