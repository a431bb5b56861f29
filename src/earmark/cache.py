"""Where earmark may keep files between runs: folders that no other user can write.

What is there is executed (compiled kernels, a script that starts Java), so a folder that another user could
write is never used. Looked for in this order:

    $EARMARK_CACHE_DIR, $NUMBA_CACHE_DIR/earmark, $XDG_CACHE_HOME/earmark, ~/.cache/earmark
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

OTHERS_CAN_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(purpose: str) -> Path | None:
    """The first private folder for files of one purpose; None when there is nowhere to write."""
    for root in _candidates():
        if private_folder(root) and (folder := private_folder(root / purpose)):
            return folder
    return None


def private_folder(path: Path) -> Path | None:
    """`path`, made with mode 0700 if need be; None when it cannot be, or when anyone else could write there."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError:
        return None
    mine = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    if not mine or found.st_mode & OTHERS_CAN_WRITE or not os.access(path, os.W_OK | os.X_OK):
        return None
    return path


def write_atomically(path: Path, content: bytes, mode: int = 0o600) -> None:
    """A reader sees the old file or the new one, never half of it; any number of writers may race."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _candidates() -> Iterator[Path]:
    if chosen := os.environ.get("EARMARK_CACHE_DIR"):
        yield Path(chosen)
    for variable in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        if parent := os.environ.get(variable):
            yield Path(parent) / "earmark"
    with contextlib.suppress(RuntimeError):  # a user without a home
        yield Path.home() / ".cache" / "earmark"
