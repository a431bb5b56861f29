"""The picture of Hilbert's curve in the documentation is the one that the code draws."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from scripts.draw_hilbert import picture

FILE = Path(__file__).parents[2] / "docs/papers/hilbert.svg"


def test_the_stored_picture_is_the_one_that_is_drawn() -> None:
    drawn = picture()
    assert FILE.read_text() == drawn, "run python scripts/draw_hilbert.py docs/papers/hilbert.svg"
    texts = [node.text for node in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert "0 … 63, 3 ranges: [32, 35], [45, 46], [50, 55]" in texts
