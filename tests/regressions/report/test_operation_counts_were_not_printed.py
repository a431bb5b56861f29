"""Operation counts were in <details>, which are hidden in print, and wide tables ran off the page."""

from __future__ import annotations

import re

from earmark.report.html import MANY, STYLE, page
from earmark.report.papers import chosen
from earmark.report.run import measure

PRINT = STYLE[STYLE.index("@media print") :]


def test_counts_are_shown_in_print() -> None:
    (experiment,) = chosen("be-star", "figure-7")
    text = page([measure(experiment, "tiny")], {}, {})
    assert "<details" not in text
    boxes = re.findall(r'<input type="checkbox" id="([^"]+)"><label for="([^"]+)">Operation counts</label>', text)
    assert len(boxes) == len(set(boxes)) > 1 and all(own == label for own, label in boxes)
    assert ".counts .wide { display: block; }" in PRINT


def test_wide_tables_wrap_in_print() -> None:
    (experiment,) = chosen("be-star", "figure-7")
    tables = re.findall(r"<table( class=\"many\")?><thead><tr>(.*?)</tr>", page([measure(experiment, "tiny")], {}, {}))
    assert all(bool(many) == (head.count("<th>") > MANY) for many, head in tables)
    assert "white-space: normal" in PRINT and "table.many" in PRINT
