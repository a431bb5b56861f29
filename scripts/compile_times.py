"""Where the seconds go when an index answers for the first time: every kernel, what it took to compile, and what for.

    python scripts/compile_times.py [INDEX] [--least 0.1]

Compiles into an empty cache of its own. Seconds are the processor's, without those of the kernels that a kernel calls.
A kernel that is compiled for several signatures is listed with what differs: often an argument that is a literal in one
place, or a number of another type, and need not be.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from typing import Any


def measured(index: str) -> tuple[list[tuple[str, str, float]], dict[str, Any]]:
    """(use, kernel, seconds) of every compilation, and the kernels by name."""
    from numba.core import event

    found: list[tuple[str, str, float]] = []
    kernels: dict[str, Any] = {}
    inside: list[list[float]] = []  # when it began, and seconds of what it calls
    use = ""

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            inside.append([time.process_time(), 0.0])

        def on_end(self, event: Any) -> None:
            begun, called = inside.pop()
            took = time.process_time() - begun
            if inside:
                inside[-1][1] += took
            kernel = event.data["dispatcher"]
            name = f"{kernel.py_func.__module__}.{kernel.py_func.__name__}"
            kernels[name] = kernel
            found.append((use, name, took - called))

    event.register("numba:compile", Listener())
    from earmark.jit import note
    from earmark.warming import _uses

    with note.replaced_by(None):
        for use, run in _uses(index):  # the listener reads `use`
            begun = time.process_time()
            run()
            print(f"{use:16}{time.process_time() - begun:8.2f} s", flush=True)
    return found, kernels


def differences(kernel: Any) -> list[str]:
    """By argument, the types for which a kernel was compiled, where there are several."""
    names = kernel.py_func.__code__.co_varnames
    types = [list(dict.fromkeys(str(one)[:40] for one in column)) for column in zip(*kernel.overloads, strict=True)]
    return [f"{name}: {' | '.join(kinds)}" for name, kinds in zip(names, types, strict=False) if len(kinds) > 1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", nargs="?", default="blocks", help="%(default)s unless another is named")
    parser.add_argument("--least", type=float, default=0.1, metavar="S", help="leave out kernels below (%(default)s)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        os.environ["EARMARK_CACHE_DIR"] = folder
        found, kernels = measured(given.index)
    print(f"\n{sum(seconds for _, _, seconds in found):.1f} s, {len(found)} compilations")
    for use, name, seconds in sorted(found, key=lambda one: -one[2]):
        if seconds >= given.least:
            print(f"{seconds:8.2f} s  {name}  ({use})")
    print("\nCompiled for several signatures:")
    for name, times in Counter(name for _, name, _ in found).items():
        if times > 1 and name.startswith("earmark"):
            print(f"  {name}: {'; '.join(differences(kernels[name]))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
