"""The real executable, run as a shell would; and small files of every kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

SCRIPT = Path(sys.executable).with_name("earmark")
NOTICE = "earmark: compiling kernels"


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one line that a failed run leaves on stderr."""
        assert self.code not in (0, 1), self
        lines = self.err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("earmark: "), self.err
        assert "Traceback" not in self.err and self.out == ""
        return lines[0].removeprefix("earmark: ")

    def rows(self) -> list[dict[str, Any]]:
        """What --json printed."""
        assert self.code == 0, self
        return [json.loads(line) for line in self.out.splitlines()]


Earmark = Callable[..., Result]


@pytest.fixture(scope="session")
def script() -> Path:
    if not SCRIPT.exists():
        pytest.skip("earmark is not installed in this environment")
    return SCRIPT


@pytest.fixture(scope="session")
def pycache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pycache")


@pytest.fixture(scope="module", autouse=True)
def compiled_modules(pycache: Path) -> Iterator[None]:
    """Runs keep compiled modules even where Python was told not to: a start is three seconds shorter."""
    with pytest.MonkeyPatch.context() as patch:
        if "PYTHONDONTWRITEBYTECODE" in os.environ:
            patch.delenv("PYTHONDONTWRITEBYTECODE")
            patch.setenv("PYTHONPYCACHEPREFIX", str(pycache))
        yield


@pytest.fixture(scope="session")
def quick_script(script: Path) -> Iterator[Path]:
    """An `earmark` that runs the real one in a process that need not import everything first: see zygote.py."""
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory(prefix="earmark-") as folder:  # the name of a socket is short
        place, made = Path(folder) / "zygote", Path(folder) / "earmark"
        made.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{here / "ask.py"}" "{place}" "{script}" "$@"\n')
        made.chmod(0o755)
        process = subprocess.Popen([sys.executable, here / "zygote.py", place], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield made
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def earmark(quick_script: Path, tmp_path: Path) -> Earmark:
    """Run `earmark …` in the test's folder; `given` is its standard input: bytes through a pipe, or a file."""

    def run(*arguments: object, given: bytes | IO[bytes] = b"", **environment: str) -> Result:
        piped = isinstance(given, bytes)
        done = subprocess.run(
            [quick_script, *(os.fspath(one) if isinstance(one, Path) else str(one) for one in arguments)],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "100", **environment},
            **({"input": given} if piped else {"stdin": given}),  # type: ignore[arg-type]
            capture_output=True,
        )
        told = [line for line in done.stderr.decode().splitlines(keepends=True) if not line.startswith(NOTICE)]
        return Result(done.returncode, done.stdout.decode(), "".join(told))

    return run
