"""Every mapped file is an open file: with the usual limit of 1,024 so many shards could not be opened."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource
from earmark.book.segments import allow_open_files
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
allow_open_files()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 64)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_more_shards_than_open_files() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n", done.stderr
