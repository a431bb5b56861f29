"""Compiles candidates that this machine has not compiled yet, in another process, while something else answers.

    plan ── blocks are not compiled ──► helper (gives way to all others) ──► kernel cache ──► `then`: plan again
      └── what is compiled, or else a scan, answers meanwhile

At most one helper runs for each user of a machine: a thread waits for its turn at a lock file in the cache. A helper
ends with the process that started it; what it has compiled by then is kept. There is none without a cache that can be
written, in Spark's workers, in a program that has Python inside, and with EARMARK_NO_WARMING=1.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from weakref import WeakMethod

from earmark.cache import cache_folder
from earmark.index.auto import is_ready
from earmark.jit import JIT, PACKAGE
from earmark.locks import remade_lock

LOCK = "helper.lock"
LONGEST = 1_800.0
"""Seconds that a helper may take."""
OFF = "EARMARK_NO_WARMING"

_state = remade_lock()
_waiting: deque[tuple[tuple[str, ...], WeakMethod[Callable[[], None]]]] = deque()
_thread: Thread | None = None
_tried: set[str] = set()
"""What a helper has tried: if it is not compiled now, it never will be."""


def takes(name: str) -> bool:
    """Whether a helper would compile this index."""
    return name not in _tried and is_offered()


def is_offered() -> bool:
    """Whether there may be helpers at all."""
    is_off = os.environ.get(OFF, "0") not in ("", "0") or "pyspark.worker" in sys.modules
    is_python = "python" in os.path.basename(sys.executable or "").lower()  # else another program would be started
    return JIT and not is_off and is_python and cache_folder("kernels") is not None


def compile_beside(names: Sequence[str], then: Callable[[], None]) -> None:
    """Have these indexes compiled, then call a method, unless its object is gone. Returns at once."""
    global _thread
    with _state:
        _waiting.append((tuple(names), WeakMethod(then)))
        if _thread is None or not _thread.is_alive():  # a fork copies no threads
            _thread = Thread(target=_work, name="earmark-helper", daemon=True)
            _thread.start()


def _work() -> None:
    global _thread
    while True:
        with _state:
            if not _waiting:
                _thread = None
                return
            names, then = _waiting.popleft()
        with suppress(OSError, subprocess.SubprocessError):
            _compile(names)
        _tried.update(names)
        if (call := then()) is not None:
            call()
        del call


def _compile(names: Sequence[str]) -> None:
    """Compile these when it is this process's turn, as far as others have not."""
    folder = cache_folder("kernels")
    if folder is None:
        return
    with open(folder / LOCK, "wb") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)  # it belongs to the process: a forked child does not hold it on
        left = [name for name in names if not is_ready(name)]
        if left:
            helper = started(f"from earmark.warming import warm_search\nfor name in {left}: warm_search(name)")
            try:
                helper.wait(LONGEST)
            finally:
                ended(helper)


def started(code: str) -> subprocess.Popen[bytes]:
    """Run Python code in another process, which gives way to all others and starts no helper itself; see `ended`."""
    code = f"from earmark.index.auto.helper import give_way\ngive_way({os.getpid()})\n{code}"
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    helper = subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {OFF: "1", "PYTHONPATH": path},
    )
    atexit.register(ended, helper)
    return helper


def give_way(parent: int) -> None:
    """In a helper: leave the processor to others, and end soon after the process that started it, however that ends."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    os.nice(10)
    Thread(target=watch, daemon=True).start()


def ended(helper: subprocess.Popen[bytes]) -> None:
    """Stop what `started` gave, if it still runs."""
    helper.kill()
    helper.wait()
