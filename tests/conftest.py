"""What all tests share: hypothesis profiles, and one Spark session per run."""

from __future__ import annotations

import gc
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]

# For the processes that tests start; functions of test modules travel to Spark's Python workers by name.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), str(ROOT)])

# Plans must not depend on what a helper has compiled meanwhile.
os.environ["EARMARK_NO_WARMING"] = "1"

# A shell that starts a run in the background has it ignore interruptions, and so would the processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The first call of a kernel compiles it, so no deadline per example.
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# Ordinary runs repeat the same examples, on every machine; only `make soak` searches at random.
settings.register_profile("fixed", derandomize=True, print_blob=True, **COMMON)
settings.register_profile("soak", max_examples=5_000, stateful_step_count=200, print_blob=True, **COMMON)
settings.load_profile("fixed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """After a random search, print the command that repeats each failure."""
    seed = config.getoption("--hypothesis-seed")
    if seed is None or config.getoption("--hypothesis-profile") != "soak":
        return
    failed = sorted({report.nodeid for report in terminalreporter.getreports("failed")})
    for nodeid in failed:
        terminalreporter.write_line(
            f"replay: PYTHONHASHSEED=0 {sys.executable} -m pytest --timeout 7200 "
            f"--hypothesis-profile=soak --hypothesis-seed={seed} {shlex.quote(nodeid)}"
        )


SPREAD = ("tests/benchmarks/", "tests/docs/", "tests/faults/", "tests/regressions/")
"""Where tests of one file take long, or have nothing in common."""
CONTRACT = re.compile(r"tests/contract/.*\[(?:\d+-)?([a-z_]+)")
"""A test of the contract, and its index."""


class OneSession(LoadScopeScheduling):
    """All tests that share a Spark session run in one worker; those of one file together, for the kernels they load.

    The marks of xdist do not reach its scheduler with every version of pytest, so it looks into the files.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if _shares_the_session(file):
            return "spark"
        if found := CONTRACT.match(nodeid):
            return f"contract of {found[1]}"
        return nodeid if file.startswith(SPREAD) else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest in one worker: the tests that share a Spark session."""
    items.sort(key=lambda item: not _shares_the_session(item.nodeid.partition("::")[0]))


@cache
def _shares_the_session(file: str) -> bool:
    path = ROOT / file
    text = path.read_text() if path.is_file() else ""  # a test may start pytest on files of its own
    return "pytest.mark.spark" in text and "pytest.mark.apart" not in text


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneSession:
    """How tests are spread over workers."""
    return OneSession(config, log)


@pytest.fixture(autouse=True)
def _same_interruptions() -> Iterator[None]:
    """The command line ignores Ctrl-C when it is done, and whatever a test starts later would inherit that."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_collection_finish() -> None:
    """Tests live to the end: the collector need not look at them, which benchmarks call before every run."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session as small and quick as it gets, in UTC. Mark tests that use it with `pytest.mark.spark`."""
    from pyspark.sql import SparkSession

    from earmark.spark.java import ensure_java

    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("earmark tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
