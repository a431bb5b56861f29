"""Draws boxes as ranges of Hilbert's curve, by the code that the index uses, as an SVG picture.

    python scripts/draw_hilbert.py docs/papers/hilbert.svg

Left, the 8 x 8 curve of the MICS paper's Figure 3 with its subscription and publications. Right, a larger box on a
32 x 32 curve, with the blocks that its ranges are cut into. Below each, the same on the line: one mark a range.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from earmark.curves import hilbert
from earmark.index.mics.arrays import LEVEL_BITS, TOP_LEVEL
from earmark.index.mics.build import split_ranges

PANEL, EDGE, GAP = 400, 24, 48
LINE_Y, LINE_HEIGHT = 34, 14
HEAD = 30
COLOURS = ("#0969da", "#bf8700", "#1a7f37", "#8250df", "#cf222e", "#0a7ea4")
STYLE = """\
  .back { fill: #ffffff; stroke: #d0d7de }
  .curve { fill: none; stroke: #8c959f; stroke-width: 1.5; stroke-linejoin: round }
  .grid { stroke: #d8dee4; stroke-width: 1 }
  .box { fill: none; stroke: #1f2328; stroke-width: 2.5; stroke-dasharray: 7 4 }
  .block { fill: none; stroke: #1f2328; stroke-width: 1 }
  .line { fill: #eaeef2 }
  .event { fill: #1f2328 }
  text { fill: #1f2328; font: 13px system-ui, sans-serif }
  .number { font-size: 11px; text-anchor: middle; fill: #59636e }
  .inside { fill: #1f2328; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117; stroke: #30363d } .grid { stroke: #21262d } .curve { stroke: #6e7681 }
    .box, .block { stroke: #e6edf3 } .line { fill: #21262d } .event { fill: #e6edf3 }
    text { fill: #e6edf3 } .number { fill: #9198a1 } .inside { fill: #e6edf3 }
  }"""

Cell = tuple[int, int]


class Panel:
    """One curve of 2^bits cells an axis, with a box; the origin is below left."""

    def __init__(self, left: float, bits: int, low: Cell, high: Cell) -> None:
        self.left, self.bits, self.low, self.high = left, bits, low, high
        self.side = 1 << bits
        self.step = PANEL / self.side
        self.start, self.first, self.last = hilbert.ranges(np.array([low]), np.array([high]), bits)
        self.cells = hilbert.cells(np.arange(self.side**2), 2, bits)
        self.parts: list[str] = []

    def corner(self, x: float, y: float) -> tuple[float, float]:
        """Where the cell's lower left corner is in the picture."""
        return self.left + x * self.step, HEAD + PANEL - y * self.step

    def rectangle(self, low: Cell, high: Cell, style: str) -> None:
        """The cells low .. high, outlined or filled."""
        x, y = self.corner(low[0], high[1] + 1)
        width, height = ((b - a + 1) * self.step for a, b in zip(low, high, strict=True))
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" {style}/>')

    def draw(self, title: str, numbered: bool, blocks: bool) -> None:
        """Grid, ranges, curve, box, and the line below."""
        self.parts.append(f'<text x="{self.left:g}" y="{HEAD - 12}">{title}</text>')
        for i in range(self.side + 1):
            for (ax, ay), (bx, by) in (((i, 0), (i, self.side)), ((0, i), (self.side, i))):
                (x1, y1), (x2, y2) = self.corner(ax, ay), self.corner(bx, by)
                self.parts.append(f'<line class="grid" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>')
        for i, (begin, end) in enumerate(zip(self.first.tolist(), self.last.tolist(), strict=True)):
            colour = COLOURS[i % len(COLOURS)]
            for x, y in self.cells[begin : end + 1].tolist():
                self.rectangle((x, y), (x, y), f'fill="{colour}" fill-opacity="0.35"')
        points = " ".join(f"{x:g},{y:g}" for x, y in (self.middle(n) for n in range(self.side**2)))
        self.parts.append(f'<polyline class="curve" points="{points}"/>')
        if blocks:
            for cells in self.blocks():
                self.rectangle(tuple(cells.min(axis=0)), tuple(cells.max(axis=0)), 'class="block"')
        if numbered:
            self.number_cells()
        self.rectangle(self.low, self.high, 'class="box"')
        self.draw_line()

    def middle(self, number: int) -> tuple[float, float]:
        """The middle of the cell with a number."""
        x, y = self.corner(*(self.cells[number] + 0.5).tolist())
        return x, y

    def number_cells(self) -> None:
        """The number of each cell, in its upper part."""
        for n in range(self.side**2):
            x, y = self.middle(n)
            inside = ((self.first <= n) & (n <= self.last)).any()
            style = "number inside" if inside else "number"
            self.parts.append(f'<text class="{style}" x="{x + 13:g}" y="{y - 11:g}">{n}</text>')

    def blocks(self) -> list[np.ndarray]:
        """The cells of each block that the ranges are cut into; blocks of one or two cells or four are rectangles."""
        _, code = split_ranges(self.start, self.first, self.last, 0)
        begin, size = code >> LEVEL_BITS, 1 << (TOP_LEVEL - (code & TOP_LEVEL))
        return [self.cells[b : b + s] for b, s in zip(begin.tolist(), size.tolist(), strict=True)]

    def events(self, numbers: dict[int, str]) -> None:
        """Publications, each a dot with its name."""
        for number, name in numbers.items():
            x, y = self.middle(number)
            self.parts.append(f'<circle class="event" cx="{x:g}" cy="{y:g}" r="4.5"/>')
            self.parts.append(f'<text x="{x - 20:g}" y="{y + 17:g}">{name}</text>')

    def draw_line(self) -> None:
        """All numbers from left to right, the ranges in their colours."""
        top, count = HEAD + PANEL + LINE_Y, self.side**2
        self.parts.append(f'<rect class="line" x="{self.left:g}" y="{top}" width="{PANEL}" height="{LINE_HEIGHT}"/>')
        for i, (begin, end) in enumerate(zip(self.first.tolist(), self.last.tolist(), strict=True)):
            x, width = self.left + PANEL * begin / count, PANEL * (end - begin + 1) / count
            place = f'x="{x:g}" y="{top}" width="{width:g}" height="{LINE_HEIGHT}"'
            self.parts.append(f'<rect {place} fill="{COLOURS[i % len(COLOURS)]}"/>')
        told = f"0 … {count - 1}, {len(self.first)} ranges"
        if len(self.first) <= 4:
            told += ": " + ", ".join(
                f"[{a}, {b}]" for a, b in zip(self.first.tolist(), self.last.tolist(), strict=True)
            )
        self.parts.append(f'<text x="{self.left:g}" y="{top + LINE_HEIGHT + 20}">{told}</text>')


def picture() -> str:
    """The whole picture."""
    left = Panel(EDGE, 3, (4, 2), (6, 5))
    left.draw("Figure 3: x 4..6, y 2..5 on 8 × 8 cells", numbered=True, blocks=False)
    left.events({28: "p1", 52: "p2", 50: "p3"})
    right = Panel(EDGE + PANEL + GAP, 5, (5, 6), (22, 19))
    right.draw("x 5..22, y 6..19 on 32 × 32 cells, with blocks", numbered=False, blocks=True)
    width, height = 2 * (EDGE + PANEL) + GAP, HEAD + PANEL + LINE_Y + LINE_HEIGHT + 36
    parts = "\n".join(left.parts + right.parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f"<title>Boxes of cells as ranges of Hilbert's curve</title>\n<style>\n{STYLE}\n</style>\n"
        f'<rect class="back" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>\n{parts}\n</svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="where to write the picture")
    parser.parse_args().file.write_text(picture())


if __name__ == "__main__":
    main()
