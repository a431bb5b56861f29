"""The executable as a process: signals, pipes, terminals, memory. Each run here starts afresh, as from a shell."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from earmark import progress
from earmark.tabular.source import Chunk

from .conftest import NOTICE

TIME_LEFT = re.compile(r"matching +\[.*\] +\d+% +\d\d:\d\d:\d\d")
PATIENCE = 120  # seconds, for machines that compile first


def make_events(path: Path, rows: int) -> None:
    """Events in a file that is never in memory as a whole."""
    schema = pa.schema([("n", pa.int64()), ("f", pa.float64()), ("t", pa.string())])
    step = np.arange(100_000)
    texts = pa.array(["x", "y", None, "z"] * 25_000)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, rows, len(step)):
            table = pa.table([pa.array((start + step) % 1000), pa.array(step % 7 / 8), texts], schema)
            writer.write_table(table.slice(0, rows - start))


def make_subscriptions(path: Path, count: int, width: int) -> None:
    """Each matches `width` of a thousand events."""
    lines = [f"{i},n BETWEEN {i % 1000} AND {i % 1000 + width - 1} AND f >= 0\n" for i in range(count)]
    path.write_text("id,condition\n" + "".join(lines))


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files that take some seconds to match: s.csv, e.parquet."""
    folder = tmp_path_factory.mktemp("long")
    make_events(folder / "e.parquet", 1_500_000)
    make_subscriptions(folder / "s.csv", 1000, 60)
    return folder


@contextlib.contextmanager
def started(
    script: Path, folder: Path, *arguments: str, stderr: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [script, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until_it_writes(folder: Path, process: subprocess.Popen[str]) -> None:
    begun = time.monotonic()
    while not any(path.stat().st_size for path in folder.glob(".earmark-*.part")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - begun < PATIENCE
        time.sleep(0.02)


def told(err: str) -> list[str]:
    return [line for line in err.splitlines() if not line.startswith(NOTICE)]


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, "parquet"), (signal.SIGTERM, "csv")])
def test_a_signal_leaves_nothing_half_written(script: Path, long_run: Path, number: signal.Signals, kind: str) -> None:
    target = long_run / f"out.{kind}"
    target.write_text("old")
    with started(script, long_run, "match", "s.csv", "e.parquet", "-o", target.name) as process:
        until_it_writes(long_run, process)
        time.sleep(1.5)  # a terminal would show a bar by now
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert (out, told(err)) == ("", ["earmark: interrupted; nothing was left half-written"])
    assert target.read_text() == "old"
    target.unlink()
    assert sorted(path.name for path in long_run.iterdir()) == ["e.parquet", "s.csv"]


UNBORN = "Fatal Python error: init_import_site"  # how an interpreter dies that had not yet started


@pytest.mark.parametrize("after", [0.05, 0.2, 0.5, 1.2])
def test_an_interruption_while_it_imports(script: Path, tmp_path: Path, after: float) -> None:
    with started(script, tmp_path, "demo", "--campaigns", "5000") as process:
        time.sleep(after)
        for _ in range(2):  # an impatient user
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    if process.returncode == 130:  # not so early that the interpreter itself had to answer
        assert told(err)[-1] == "earmark: interrupted; nothing was left half-written"
        assert "Traceback" not in err
    else:
        unborn = process.returncode == 1 and (err.startswith(UNBORN) or err == "KeyboardInterrupt\n")
        assert unborn or process.returncode == -signal.SIGINT
        assert "earmark/cli" not in err.replace("earmark.cli import main", "")


def in_a_shell(script: Path, folder: Path, command: str, **environment: str) -> tuple[int, str, list[str]]:
    """Exit code, stdout, lines on stderr."""
    path = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, told(done.stderr)


def test_a_reader_that_leaves(quick_script: Path, long_run: Path) -> None:
    first = '"event","subscription","score"\n'
    assert in_a_shell(quick_script, long_run, "earmark match s.csv e.parquet | head -1") == (0, first, [])
    assert in_a_shell(quick_script, long_run, "earmark --help | true") == (0, "", [])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["match s.csv e.parquet", "explain s.csv 1 '{\"n\": 1}'", "--help"])
def test_a_full_disk(quick_script: Path, long_run: Path, command: str) -> None:
    failed = in_a_shell(quick_script, long_run, f"earmark {command} > /dev/full")
    assert failed == (2, "", ["earmark: the run failed: No space left on device"])


def test_an_output_that_outgrows_its_disk(script: Path, long_run: Path) -> None:
    before = sorted(path.name for path in long_run.iterdir())
    command = "ulimit -f 1; earmark match s.csv e.parquet -o out.jsonl"
    # Without compiled modules, which the limit would cut short for every run after this one.
    code, _, err = in_a_shell(script, long_run, command, PYTHONDONTWRITEBYTECODE="1")
    assert (code, err) == (2, ["earmark: 'out.jsonl' cannot be written: File too large"])
    assert sorted(path.name for path in long_run.iterdir()) == before


def test_without_streams(script: Path, tmp_path: Path) -> None:
    make_subscriptions(tmp_path / "s.csv", 2, 5)
    (tmp_path / "e.csv").write_text("n,f\n1,1\n")
    assert in_a_shell(script, tmp_path, "earmark match s.csv e.csv -o o.csv <&- >&- 2>&-") == (0, "", [])
    assert (tmp_path / "o.csv").read_text().count("\n") == 3


def test_a_fault_of_our_own(script: Path, tmp_path: Path) -> None:
    """Here a library that is broken: still a sentence, with a code of its own; the traceback is for those who ask."""
    (tmp_path / "numba.py").write_text("raise RuntimeError('broken\\non purpose')")
    make_subscriptions(tmp_path / "s.csv", 2, 5)
    path = f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}"
    sentence = (
        "earmark: a bug in earmark, not in your input: RuntimeError: broken on purpose (numba.py, line 1); "
        "EARMARK_DEBUG=1 shows a traceback"
    )
    command = "earmark match s.csv s.csv -o o.csv"
    assert in_a_shell(script, tmp_path, command, PYTHONPATH=path) == (70, "", [sentence])
    code, _, err = in_a_shell(script, tmp_path, command, PYTHONPATH=path, EARMARK_DEBUG="1")
    assert (code, err[0], err[-1]) == (70, "Traceback (most recent call last):", sentence)
    assert not (tmp_path / "o.csv").exists()


# --- progress ------------------------------------------------------------------------------------------------


def on_a_terminal(script: Path, folder: Path, *arguments: str, stop: re.Pattern[str] | None = None) -> str:
    """What a run shows on a terminal as stderr; interrupted once `stop` has been seen."""
    ours, theirs = pty.openpty()
    shown = ""
    with started(script, folder, *arguments, stderr=theirs) as process:
        os.close(theirs)
        with contextlib.suppress(OSError):  # how a terminal says that nobody is at the other end
            while part := os.read(ours, 65_536):
                shown += part.decode(errors="replace")
                if stop is not None and stop.search(shown):
                    os.killpg(process.pid, signal.SIGINT)
                    stop = None
        os.close(ours)
    return shown


def test_a_bar_with_the_time_left_on_a_terminal(script: Path, long_run: Path) -> None:
    shown = on_a_terminal(script, long_run, "match", "s.csv", "e.parquet", "-o", "bar.parquet", stop=TIME_LEFT)
    assert TIME_LEFT.search(shown), shown[-500:]
    assert not (long_run / "bar.parquet").exists()


def test_no_bar_for_what_is_over(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "is_shown", lambda: True)
    monkeypatch.setattr(progress, "_DELAY", -1.0)
    whole = [Chunk([], 0, 0.5), Chunk([], 0, 1.0)]
    assert list(progress.shares(whole, "matching")) == whole
    assert list(progress.track(range(256), 256, "adding")) == list(range(256))
    assert capsys.readouterr().err == ""
    assert len(list(progress.track(iter(range(600)), None, "adding"))) == 600
    assert "adding" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_time_left_is_not_that_of_a_slow_start(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, terminal = [0.0], Terminal()
    monkeypatch.setattr(time, "time", lambda: clock[0])
    monkeypatch.setattr(sys, "stderr", terminal)
    for i, _ in enumerate(progress.shares([Chunk([], 0, share) for share in (0.001, 0.1, 0.2)], "matching")):
        clock[0] += 100 if i == 0 else 10
    assert "10%  00:01:30" in terminal.getvalue()


def test_a_bar_goes_away_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, terminal = [0.0], Terminal()
    monkeypatch.setattr(time, "time", lambda: clock[0])
    monkeypatch.setattr(sys, "stderr", terminal)
    for _ in progress.track(range(1_000), 1_000, "counting"):
        clock[0] += 0.01
    for _ in progress.shares([Chunk([], 0, share) for share in (0.1, 0.2, 1.0)], "matching"):
        clock[0] += 2
    assert "counting  [" in terminal.getvalue() and "matching  [" in terminal.getvalue()
    screen = terminal.getvalue().replace("\x1b[?25l", "").replace("\x1b[?25h", "")
    assert screen.endswith("\r\x1b[K") and "\n" not in screen


def test_the_demo_shows_how_the_load_goes(script: Path, tmp_path: Path) -> None:
    bar = re.compile(r"adding +\[.*\] +\d+/200000 +\d\d:\d\d:\d\d")
    shown = on_a_terminal(script, tmp_path, "demo", "--campaigns", "200000", stop=bar)
    assert bar.search(shown)
    assert shown.splitlines()[-1] == "earmark: interrupted; nothing was left half-written"  # below the bar


def test_a_bar_while_conditions_are_parsed(script: Path, tmp_path: Path) -> None:
    make_subscriptions(tmp_path / "s.csv", 400_000, 5)
    (tmp_path / "e.csv").write_text("n,f\n1,1\n")
    bar = re.compile(r"adding +\[.*\] +\d+/400000 +\d\d:\d\d:\d\d")
    assert bar.search(on_a_terminal(script, tmp_path, "match", "s.csv", "e.csv", "-o", "o.csv", stop=bar))
    assert not (tmp_path / "o.csv").exists()


def test_a_bar_where_the_length_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, terminal = [0.0], Terminal()
    monkeypatch.setattr(time, "time", lambda: clock[0])
    monkeypatch.setattr(sys, "stderr", terminal)
    for _ in progress.shares([Chunk([], 0, share) for share in (None, None, None, 1.0)], "matching"):
        clock[0] += 2
    assert "matching" in terminal.getvalue() and "%" not in terminal.getvalue()


# --- memory --------------------------------------------------------------------------------------------------


MEASURED = """
import os, sys
actions = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
_, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=actions), 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""


def peak_megabytes(script: Path, folder: Path, *arguments: str) -> float:
    """The most memory a run ever held.

    Started by a small process: what starts another counts as its first memory, and a worker of the tests is large.
    """
    asked = [sys.executable, "-S", "-c", MEASURED, str(script), *arguments]
    done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True)
    code, peak = map(int, done.stdout.split())
    assert code == 0
    return peak / 1024 if os.uname().sysname != "Darwin" else peak / 2**20


def memory_grows_by(script: Path, folder: Path, sizes: tuple[int, int]) -> tuple[float, float]:
    """Peak memory of a run on the first number of events, and how much more the second takes."""
    make_subscriptions(folder / "s.csv", 1000, 5)
    peaks = []
    for rows in sizes:
        make_events(folder / f"{rows}.parquet", rows)
        output = folder / f"{rows}-hits.parquet"
        names = (str(folder / "s.csv"), str(folder / f"{rows}.parquet"))
        peaks.append(peak_megabytes(script, folder, "match", *names, "-o", str(output)))
        assert pq.read_metadata(output).num_rows >= rows * 4
    print(f"{sizes[0]:,} events: {peaks[0]:.0f} MB; {sizes[1]:,} events: {peaks[1]:.0f} MB")
    return peaks[0], peaks[1] - peaks[0]


def test_memory_does_not_follow_the_number_of_events(script: Path, tmp_path: Path) -> None:
    peak, growth = memory_grows_by(script, tmp_path, (60_000, 400_000))
    assert peak < 800
    assert growth < 120


def test_memory_does_not_follow_what_a_compressed_file_holds(script: Path, tmp_path: Path) -> None:
    make_subscriptions(tmp_path / "s.csv", 10, 5)
    peaks = []
    for rows in (1_000, 200_000):
        with gzip.open(tmp_path / f"{rows}.csv.gz", "wb", compresslevel=1) as file:
            file.write(b"pad,n,f\n")
            for _ in range(rows // 1_000):
                file.write((b"x" * 1_500 + b",1,1\n") * 1_000)
        names = (str(tmp_path / "s.csv"), str(tmp_path / f"{rows}.csv.gz"), str(tmp_path / "o.csv"))
        peaks.append(peak_megabytes(script, tmp_path, "match", *names[:2], "-o", names[2]))
    assert peaks[1] - peaks[0] < 120  # of 300 MB


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_million_events_in_bounded_memory(script: Path, tmp_path: Path) -> None:
    peak, growth = memory_grows_by(script, tmp_path, (1_000_000, 10_000_000))
    assert peak < 1000
    assert growth < 150
