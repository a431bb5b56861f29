"""Every console block of docs/cli.md, run by a shell with the real executable."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from .conftest import NOTICE

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
FILE = re.compile(r"^`(\S+)`\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
SUMMARY = re.compile(r"^loaded [\d,]+ subscriptions? in .* results?\n", re.MULTILINE)


def pattern(wanted: str) -> str:
    """… stands for anything."""
    return ".*".join(re.escape(part) for part in wanted.split("…"))


@pytest.mark.parametrize("block", BLOCK.findall(PAGE.read_text()), ids=lambda text: text.splitlines()[0][2:30])
def test_console_block(quick_script: Path, tmp_path: Path, block: str) -> None:
    for name, content in FILE.findall(PAGE.read_text()):
        (tmp_path / name).write_text(content)
    commands = COMMAND.findall(block)
    mark = "=-=-=\n"
    shell = "".join(f"{line}\ncode=$?; printf '{mark.strip()}\\n'; (exit $code)\n" for line, _ in commands)
    path = f"{quick_script.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", shell],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    for (line, wanted), got in zip(commands, done.stdout.split(mark), strict=False):
        told = "".join(part for part in got.splitlines(keepends=True) if not part.startswith(NOTICE))
        assert re.fullmatch(pattern(wanted), SUMMARY.sub("", told), re.DOTALL), f"{line}\n{told}"
