"""Runs earmark on a terminal of its own, and draws what the terminal shows in the end as an SVG picture.

    python scripts/record.py docs/demo.svg                         the demo, as in README.md
    python scripts/record.py picture.svg demo --campaigns 2000     any other command

Nothing is made up: the executable beside this Python is run, with a pseudo-terminal as its stdin, stdout and stderr,
and the bytes it writes pass through `Screen`, which knows as much of a terminal as click uses: printable text, line
feed, carriage return, erase to the end of the line, bold, and long lines that go on in the next.

The picture needs no font of its own: every line is given the width that its characters have on a grid, so that columns
stay columns in any monospaced font. Colours follow the reader's light or dark setting.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path
from xml.sax.saxutils import escape

COLUMNS, ROWS = 104, 50
WIDTH, HEIGHT, BASE = 8.4, 20, 14.5  # of a character; where in its line the text stands
EDGE = 20
SIZE = 14
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
STYLE = """\
  .back { fill: #f6f8fa; stroke: #d0d7de }
  text { fill: #1f2328; font: SIZEpx FONT; white-space: pre }
  .bold { font-weight: 700 } .dim { fill: #59636e } .yes { fill: #1a7f37 } .no { fill: #cf222e }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117; stroke: #30363d }
    text { fill: #e6edf3 } .dim { fill: #9198a1 } .yes { fill: #3fb950 } .no { fill: #f85149 }
  }"""
MARKS = {"✓": "yes", "✗": "no"}
PIECE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\x00-\x1f\x7f])|([^\x00-\x1f\x7f]+)")
ERASE, STYLE_OF_TEXT = "K", "m"

Cell = tuple[str, bool]  # a character, and whether it is bold


class Screen:
    """What a terminal shows, lines that scrolled away included."""

    def __init__(self, columns: int = COLUMNS) -> None:
        self.columns = columns
        self.lines: list[list[Cell]] = [[]]
        self._row = self._column = 0
        self._bold = False

    def feed(self, text: str) -> None:
        """Take in what a program wrote."""
        for found in PIECE.finditer(text):
            arguments, command, control, plain = found.groups()
            if plain is not None:
                for character in plain:
                    self._put(character)
            elif control == "\n":
                self._row += 1
                self._column = 0
                while len(self.lines) <= self._row:
                    self.lines.append([])
            elif control == "\r":
                self._column = 0
            elif command == ERASE:
                del self.lines[self._row][self._column :]
            elif command == STYLE_OF_TEXT:
                self._bold = arguments == "1"

    def _put(self, character: str) -> None:
        if self._column == self.columns:
            self.feed("\n")
        line = self.lines[self._row]
        line += [(" ", False)] * (self._column + 1 - len(line))
        line[self._column] = (character, self._bold)
        self._column += 1

    def shown(self) -> list[list[Cell]]:
        """The lines, without what is blank at their ends and below them."""
        lines = [list(line) for line in self.lines]
        for line in lines:
            while line and line[-1] == (" ", False):
                line.pop()
        while lines and not lines[-1]:
            lines.pop()
        return lines


def recorded(command: list[str], columns: int = COLUMNS) -> tuple[Screen, int]:
    """The screen after a command has run on a terminal, and its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    settings = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": str(ROWS), "PYTHONUTF8": "1"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    parts = []
    with contextlib.suppress(OSError):  # how a terminal says that nobody is at the other end
        while part := os.read(ours, 1 << 16):
            parts.append(part)
    os.close(ours)
    screen = Screen(columns)
    screen.feed(b"".join(parts).decode(errors="replace"))
    return screen, process.wait()


def spans(line: list[Cell]) -> list[tuple[str, str]]:
    """A line as (class, text): bold, marks in their colours, the rest plain."""
    made: list[tuple[str, str]] = []
    for character, bold in line:
        kind = MARKS.get(character, "bold" if bold else "")
        if made and made[-1][0] == kind:
            made[-1] = (kind, made[-1][1] + character)
        else:
            made.append((kind, character))
    return made


def picture(command: str, lines: list[list[Cell]], columns: int = COLUMNS) -> str:
    """The SVG: a prompt with the command, and what it showed."""
    prompt: list[Cell] = [("$", False), (" ", False), *((character, True) for character in command)]
    rows = [prompt, *lines]
    width, height = round(columns * WIDTH + 2 * EDGE), len(rows) * HEIGHT + 2 * EDGE
    texts = []
    for i, line in enumerate(rows):
        if not line:
            continue
        inner = "".join(
            f'<tspan class="{kind}">{escape(text)}</tspan>' if kind else escape(text) for kind, text in spans(line)
        )
        length = f'textLength="{len(line) * WIDTH:g}" lengthAdjust="spacingAndGlyphs"'
        texts.append(f'<text x="{EDGE}" y="{EDGE + i * HEIGHT + BASE:g}" {length} xml:space="preserve">{inner}</text>')
    style = STYLE.replace("SIZE", str(SIZE)).replace("FONT", FONT)
    body = "\n".join(texts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escape(command)} in a terminal">\n<style>\n{style}\n</style>\n'
        f'<rect class="back" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>\n{body}\n</svg>\n'
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path, help="the SVG file to write")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of earmark; without any: demo")
    options = parser.parse_args()
    arguments = options.arguments or ["demo"]
    screen, code = recorded([str(Path(sys.executable).with_name("earmark")), *arguments])
    lines = screen.shown()
    if code not in (0, 1):
        print(f"earmark {shlex.join(arguments)} ended with {code}; nothing was drawn", file=sys.stderr)
        return code
    options.picture.write_text(picture(f"earmark {shlex.join(arguments)}", lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
