"""The program that draws a terminal, on the real executable and on what terminals do."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

PROGRAM = Path(__file__).parents[2] / "scripts" / "record.py"
TEXT = "{http://www.w3.org/2000/svg}text"


@pytest.fixture(scope="module")
def record() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record", PROGRAM)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(TEXT)]


def shown(record: ModuleType, written: str, columns: int = 20) -> list[str]:
    screen = record.Screen(columns)
    screen.feed(written)
    return ["".join(character for character, _ in line) for line in screen.shown()]


def test_what_a_terminal_shows(record: ModuleType) -> None:
    assert shown(record, "one\r\ntwo \r\n\r\n") == ["one", "two"]
    assert shown(record, "a 10%\ra 100%\x1b[K\r\nb") == ["a 100%", "b"]  # a bar, drawn over
    assert shown(record, "longer\rno\x1b[K") == ["no"]
    assert shown(record, "abcdefgh", 3) == ["abc", "def", "gh"]
    assert shown(record, "\x1b[?25lx\x1b[?25h") == ["x"]


def test_what_the_picture_holds(record: ModuleType) -> None:
    screen = record.Screen()
    screen.feed("\x1b[1mBold\x1b[0m <&> ✓ yes ✗ no\r\n\r\n  end")
    svg = record.picture("earmark demo", screen.shown())
    assert texts(svg) == ["$ earmark demo", "Bold <&> ✓ yes ✗ no", "  end"]
    for part in ('<tspan class="bold">Bold</tspan>', '<tspan class="yes">✓</tspan>', '<tspan class="no">✗</tspan>'):
        assert part in svg
    assert "prefers-color-scheme: dark" in svg


def test_the_demo_as_a_picture(tmp_path: Path) -> None:
    if not Path(sys.executable).with_name("earmark").exists():
        pytest.skip("earmark is not installed in this environment")
    made = tmp_path / "demo.svg"
    command = [sys.executable, PROGRAM, made, "demo", "--campaigns", "300", "--visitors", "20"]
    subprocess.run(command, check=True, timeout=200)
    lines = texts(made.read_text(encoding="utf-8"))
    assert lines[0] == "$ earmark demo --campaigns 300 --visitors 20"
    for part in ("300 ads, 20 visitors: which ads does each visitor match?", "A near miss", "What to try next"):
        assert part in lines
    failed = subprocess.run([sys.executable, PROGRAM, tmp_path / "none.svg", "frob"], capture_output=True, text=True)
    assert (failed.returncode, failed.stderr) == (2, "earmark frob ended with 2; nothing was drawn\n")
    assert not (tmp_path / "none.svg").exists()
