"""The kernel cache: compiled once, loaded afterwards, and never in the way, whatever the disk looks like."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from earmark import jit

KERNELS = """
from earmark.jit import kernel

@kernel
def inner(x):
    return x + ONE

@kernel
def outer(x):
    return 2 * inner(x)

ONE = 1
"""
MESSAGE = "earmark: compiling kernels"
CACHE_VARIABLES = ("EARMARK_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "EARMARK_QUIET", "NUMBA_DISABLE_JIT")

needs_jit = pytest.mark.skipif(not jit.JIT, reason="kernels are plain Python in this run")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of two small kernels, and an empty home."""
    (tmp_path / "tiny.py").write_text(KERNELS)
    (tmp_path / "home").mkdir()
    for name in CACHE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "home"


class Start:
    """As a new process would: nothing compiled, nothing remembered. Keeps what was said."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.path, self.monkeypatch, self.capfd = tmp_path / "tiny.py", monkeypatch, capfd

    def __call__(self) -> tuple[int, str]:
        jit._stamp_folder.cache_clear()
        self.monkeypatch.setattr(jit, "note", jit.Note())
        self.capfd.readouterr()
        result = self.load().outer(20)
        return result, self.capfd.readouterr().err

    def load(self) -> ModuleType:
        spec = importlib.util.spec_from_file_location("tiny", self.path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        self.monkeypatch.setitem(sys.modules, "tiny", module)
        exec(compile(self.path.read_text(), str(self.path), "exec"), module.__dict__)
        return module


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Start:
    return Start(tmp_path, monkeypatch, capfd)


def process(folder: Path, code: str = "import tiny; print(tiny.outer(20))", **variables: str) -> tuple[str, str]:
    """The same in a process of its own."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])} | variables
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def kernel_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.kernel"))


@needs_jit
def test_compiles_once_and_says_so(tmp_path: Path, home: Path) -> None:
    result, said = process(tmp_path)
    assert result == "42\n"
    assert said.count(MESSAGE) == 1
    folder = home / ".cache" / "earmark"
    assert len(kernel_files(folder)) == 2
    for path in (folder, folder / "kernels", *(folder / "kernels").iterdir()):
        assert path.stat().st_mode & 0o777 == 0o700
    assert process(tmp_path) == ("42\n", "")


@needs_jit
def test_many_processes_at_once(tmp_path: Path, home: Path) -> None:
    command = [sys.executable, "-c", "import tiny; print(tiny.outer(20))"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "EARMARK_QUIET": "1"}
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [one.communicate()[0] for one in running] == ["42\n"] * 3
    assert len(kernel_files(home)) == 2
    assert list(home.rglob(".new-*")) == []


def test_without_the_jit(tmp_path: Path, home: Path) -> None:
    code = "import earmark.jit, tiny; print(earmark.jit.JIT, type(tiny.outer).__name__, tiny.outer(20))"
    assert process(tmp_path, code, NUMBA_DISABLE_JIT="1") == ("False function 42\n", "")
    assert kernel_files(home) == []


@needs_jit
def test_an_edited_callee_is_compiled_again(start: Start, tmp_path: Path) -> None:
    """Even when the file looks as old and as long as before."""
    assert start()[0] == 42
    source = tmp_path / "tiny.py"
    before = source.stat()
    source.write_text(KERNELS.replace("ONE = 1", "ONE = 2"))
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    result, said = start()
    assert result == 44
    assert MESSAGE in said


@needs_jit
def test_quiet(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EARMARK_QUIET", "1")
    assert start() == (42, "")


@needs_jit
@pytest.mark.parametrize(
    ("variable", "folder"),
    [("EARMARK_CACHE_DIR", "kernels"), ("NUMBA_CACHE_DIR", "earmark/kernels"), ("XDG_CACHE_HOME", "earmark/kernels")],
)
def test_chosen_folder(
    start: Start, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, folder: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "chosen"))
    start()
    assert len(kernel_files(tmp_path / "chosen" / folder)) == 2
    assert kernel_files(home) == []


@needs_jit
def test_unwritable_home(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
    result, said = start()
    assert result == 42
    assert "EARMARK_CACHE_DIR" in said


@needs_jit
@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that not even root can write")
def test_unwritable_everywhere(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("EARMARK_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(variable, "/proc/nowhere")
    assert start()[0] == 42


@needs_jit
def test_read_only_install(start: Start, tmp_path: Path) -> None:
    """Nothing is written next to the source, whether or not it could be."""
    start()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "tiny.py"]


def world_writable(folder: Path) -> None:
    folder.chmod(0o777)


def group_writable(folder: Path) -> None:
    folder.chmod(0o770)


def foreign(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(folder, 12345, 12345)


@needs_jit
@pytest.mark.parametrize("spoil", [world_writable, group_writable, foreign])
def test_a_folder_that_others_can_write_is_refused(
    start: Start, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None]
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    spoil(folder)
    monkeypatch.setenv("EARMARK_CACHE_DIR", str(folder))
    assert start()[0] == 42
    assert list(folder.iterdir()) == []
    assert len(kernel_files(home)) == 2


def empty(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def one_bit_off(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def garbage(path: Path) -> None:
    path.write_bytes(b"\x80\x05garbage" * 50)


def no_pickle(path: Path) -> None:
    """Right checksum, wrong content: as another version of Numba might have left it."""
    body = b"not a pickle"
    path.write_bytes(jit.MAGIC + hashlib.sha256(body).digest() + body)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@needs_jit
@pytest.mark.parametrize("spoil", [empty, truncated, one_bit_off, garbage, no_pickle, a_folder])
def test_a_damaged_file_is_replaced(start: Start, home: Path, spoil: Callable[[Path], None]) -> None:
    start()
    stored = kernel_files(home)
    assert len(stored) == 2
    for path in stored:
        spoil(path)
    result, said = start()
    assert result == 42
    assert MESSAGE in said
    assert kernel_files(home) == stored
    assert start() == (42, "")


@needs_jit
def test_a_full_disk_does_not_fail_the_call(start: Start, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(jit, "write_atomically", full)
    assert start()[0] == 42
    assert kernel_files(home) == []


@needs_jit
def test_a_numba_without_the_private_parts_still_compiles(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core.compiler import CompileResult

    start()
    monkeypatch.delattr(CompileResult, "_rebuild")
    monkeypatch.delattr(CompileResult, "_reduce")
    assert start()[0] == 42


@needs_jit
def test_a_kernel_can_forget(start: Start, home: Path) -> None:
    start()
    cache = start.load().outer._cache
    cache.flush()
    assert [path.name.split("-")[0] for path in kernel_files(home)] == ["tiny.inner"]
    cache.disable()
    assert cache.cache_path is None
    cache.enable()
    assert Path(cache.cache_path).is_relative_to(home)


@needs_jit
def test_old_stamps_of_a_module_are_swept(start: Start, home: Path) -> None:
    start()
    folder = home / ".cache" / "earmark" / "kernels"
    (current,) = folder.iterdir()
    module = current.name.rpartition("-")[0]
    for number in range(20):
        for name in (f"{module}-{number}", f"other-{number}"):
            (folder / name).mkdir()
            os.utime(folder / name, (number, number))
    start()
    left = {path.name for path in folder.iterdir()}
    own = {name for name in left if name.startswith(module)}
    assert len(own) == jit.KEPT_STAMPS
    assert {current.name, f"{module}-19"} <= own
    assert f"{module}-0" not in own
    assert len(left - own) == 20


def test_a_stamp_follows_imports_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / jit.PACKAGE.name
    (package / "index" / "tree").mkdir(parents=True)
    files = {
        "index/one.py": "from earmark.index.tree import walk\n",
        "index/tree/__init__.py": "if 1:\n  from earmark.pair import (\n    bits,\n    cuts as k,\n  )\n",
        "bits.py": "",
        "other.py": "from earmark.index import one\n",
    }
    (package / "pair").mkdir()
    files |= {"pair/bits.py": "", "pair/cuts.py": "import earmark.deep\n", "deep.py": "D = 1\n"}
    for name, content in files.items():
        (package / name).write_text(content)
    monkeypatch.setattr(jit, "PACKAGE", package)
    source = package / "index" / "one.py"
    before = jit._stamp(source)
    for name in ("bits.py", "other.py"):
        (package / name).write_text("changed = 1\n")
        assert jit._stamp(source) == before
    seen = {before}
    for name in ("index/one.py", "index/tree/__init__.py", "pair/bits.py", "pair/cuts.py", "deep.py"):
        (package / name).write_text(files[name] + "changed = 1\n")
        seen.add(jit._stamp(source))
    assert len(seen) == 6
