"""The R-tree in Figure 7 of VCR seemed small: its memory was what the process grew by, though much of it was memory
that drawing the rectangles had freed. That made 62 bytes per rectangle at 32,000, and 200 at 256,000.
"""

from __future__ import annotations

from multiprocessing import get_context

from earmark.report.papers.vcr import r_tree_bytes


def test_an_r_tree_has_as_many_bytes_per_rectangle_when_it_is_small() -> None:
    with get_context("spawn").Pool(1) as fresh:
        assert fresh.apply(r_tree_bytes, ("90-10", 32_000)) > 150 * 32_000
