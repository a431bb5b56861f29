"""The real executable, run as a shell would; and small files of every kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
def zygote(script: Path) -> Iterator[subprocess.Popen[str]]:
    helper = Path(__file__).with_name("zygote.py")
    process = subprocess.Popen([sys.executable, helper], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.wait(10)


@pytest.fixture
def earmark(zygote: subprocess.Popen[str], script: Path, tmp_path: Path) -> Earmark:
    """Run `earmark …` in the test's folder."""

    def run(*arguments: object, **environment: str) -> Result:
        out, err = tmp_path / ".out", tmp_path / ".err"
        request = {
            "script": str(script),
            "arguments": [os.fspath(one) if isinstance(one, Path) else str(one) for one in arguments],
            "folder": str(tmp_path),
            "environment": {"COLUMNS": "100", **environment},
            "out": str(out),
            "err": str(err),
        }
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        zygote.stdin.write(json.dumps(request) + "\n")
        zygote.stdin.flush()
        code = json.loads(zygote.stdout.readline())
        texts = [path.read_text(encoding="utf-8") for path in (out, err)]
        for path in (out, err):
            path.unlink()
        told = [line for line in texts[1].splitlines(keepends=True) if not line.startswith(NOTICE)]
        return Result(code, texts[0], "".join(told))

    return run
