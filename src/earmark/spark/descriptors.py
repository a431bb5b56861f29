"""Room for many mapped files: each mapped array holds an open file, some 44 a shard and 12 a part.

The usual limit of 1,024 would end a publish at some eighty parts and a version at some twenty shards. A process may
raise its own limit up to that of its administrator, which is what happens here, once, before many files are opened.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache

MOST = 1 << 20


@cache
def allow_open_files() -> None:
    """Let this process open as many files as it may."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # as many as before, then
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
