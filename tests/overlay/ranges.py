"""The policies of ranges, subsumption and merging, with options for the tests."""

from __future__ import annotations

from typing import Any

from earmark.overlay.space import Axis, Space

SPACE = Space((Axis("x", "number", tuple(range(0, 52, 4))), Axis("y", "number", tuple(range(0, 52, 4)))), 4)
OTHER = Space((Axis("y", "number", (1, 2, 3)), Axis("x", "number", (0, 10, 20, 30))), 3)
SAMPLE = [{"x": x, "y": (x * 7) % 50} for x in range(50)] * 4

Options = tuple[str, dict[str, Any]]
RANGES: dict[str, Options] = {
    "projection": ("subsumption", {"space": SPACE}),
    "indexing": ("subsumption", {"by": "indexing"}),
    "indexing-mics": ("subsumption", {"by": "indexing", "index": "mics"}),
    "perfect": ("merging", {"space": SPACE}),
    "gap": ("merging", {"space": SPACE, "gap": 9}),
    "budget": ("merging", {"space": SPACE, "budget": 0.5, "sample": SAMPLE, "hops": 4}),
}
IN_RANGES = ["projection", "perfect", "gap", "budget"]
"""Those that speak of ranges to each other."""
