"""Numba options, in one place: `@kernel` compiles a function, and keeps the machine code on disk.

Compiling every kernel takes seconds; loading the result takes milliseconds. Numba's own cache is not used,
because it sits next to the source or moves with a setting that belongs to the whole process, forgets that a
kernel depends on the kernels it calls, and believes whatever a file says. Here each kernel has a `KernelCache`:

    <cache folder>/kernels/<module>-<stamp>/<module>.<kernel>-<key, hashed>.kernel
      earmark.cache                  |                        signature, processor, settings
                                     the sources its kernels are made of, versions of Python and Numba

    a file:  MAGIC | SHA-256 of the rest | pickle of (key, compiled kernel)

**Invariant.** A file is unpickled only when it is in a folder that no other user can write, and its checksum
holds; it is used only when its full key equals the one asked for. Files appear by atomic rename, and no two
signatures share one, so any number of processes may start at once. No state of the cache can fail a call:
a bad file is deleted and the kernel compiled again, and nowhere to write means no cache.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import pickle
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import numba
import numba.extending
from llvmlite.binding.ffi import lib as llvm
from numba.core import config
from numba.core.compiler_lock import global_compiler_lock

from earmark.cache import cache_folder, private_folder, write_atomically

F = TypeVar("F", bound=Callable[..., Any])

JIT: bool = not config.DISABLE_JIT
"""False under NUMBA_DISABLE_JIT=1, where kernels run as plain Python."""

BOUNDS: bool = JIT and os.environ.get("EARMARK_BOUNDSCHECK", "0") not in ("", "0")
"""True under EARMARK_BOUNDSCHECK=1, for tests: kernels check every access to an array, and are slow."""

MAGIC = b"earmark kernel 1\n"
HEAD_BYTES = len(MAGIC) + hashlib.sha256().digest_size
KEPT_STAMPS = 6  # of each source file: several environments, a few edits back
PAUSE_ENDS = 1.0  # seconds without a kernel being compiled
SAY_AGAIN = 5.0
PACKAGE = Path(__file__).parent
IMPORT = re.compile(rf"^\s*(?:from|import) ({PACKAGE.name}[\w.]*)(?: import (\([^)]*\)|.*))?", re.MULTILINE)


def _wait_for_compiler() -> None:
    """A fork waits for threads that compile, or use LLVM otherwise: its child would wait for them for ever."""
    global_compiler_lock.acquire()
    llvm._lock.__enter__()


def _release_compiler() -> None:
    llvm._lock.__exit__(None, None, None)
    global_compiler_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_compiler, after_in_parent=_release_compiler, after_in_child=_release_compiler)


def kernel(function: F) -> F:
    """Compile `function` at its first call for each signature; plain Python under NUMBA_DISABLE_JIT=1.

    Kernels release the GIL, never use fastmath (results are equal to the last bit everywhere), and divide as
    numpy does, so that no division needs a branch.
    """
    return _compiled(function, nogil=True, error_model="numpy")


def inlined(function: F) -> F:
    """A part of kernels: merged into every kernel that calls it. It must not allocate.

    Numba counts references to every array of a NamedTuple at each call that stays a call, which made a scan 15
    times slower. A function that allocates nothing needs no counting.
    """
    return _compiled(function, nogil=True, error_model="numpy", forceinline=True, _nrt=False, no_cfunc_wrapper=True)


def embedded(function: F) -> F:
    """As `inlined`, for what only kernels call: without the way in from Python, which takes long to compile.

    With a NamedTuple of many arrays as argument, that way in is most of a small function.
    """
    options = {"nogil": True, "error_model": "numpy", "forceinline": True, "_nrt": False}
    return _compiled(function, **options, no_cfunc_wrapper=True, no_cpython_wrapper=True)


def entrance(function: Callable[..., Any], into: Any, types: tuple[Any, ...]) -> Callable[..., Any]:
    """The way from Python into a part of kernels: `function`, which calls it, compiled for arguments of these types.

    What is returned does not look at the types of its arguments any more. It is kept with the kernels of the file that
    `into` is from.
    """
    allocates = into.targetoptions.get("_nrt", True)  # then an exception may come from it
    dispatcher: Any = numba.njit(nogil=allocates, error_model="numpy", _nrt=allocates, boundscheck=BOUNDS)(function)
    if into._cache.is_enabled:
        dispatcher._cache = KernelCache(into.py_func, f"{function.__name__}_")
    dispatcher.compile(types)
    return dispatcher.overloads[types].entry_point  # type: ignore[no-any-return]


def _compiled(function: F, **options: Any) -> F:
    if not JIT:
        return function
    dispatcher: Any = numba.njit(**options, boundscheck=BOUNDS)(function)
    if hasattr(dispatcher, "_cache"):
        dispatcher._cache = KernelCache(function)
    return dispatcher  # type: ignore[no-any-return]


def is_compiled(kernel: Any, prefix: str = "") -> bool:
    """Whether a kernel, or what calls it under this prefix, was compiled on this machine, for any signature."""
    return not JIT or bool(kernel.overloads) or KernelCache(kernel.py_func, prefix).holds_any()


def intrinsic(function: Callable[..., Any]) -> Any:
    """A Numba intrinsic, for kernels only; without the JIT its plain twin must be called instead (see `JIT`)."""
    return numba.extending.intrinsic(function)


class KernelCache:
    """The compiled forms of one kernel, on disk. Has the methods that a Numba dispatcher asks of its cache."""

    def __init__(self, function: Callable[..., Any], prefix: str = "") -> None:
        self._code = function.__code__
        name = f"{function.__module__}.{prefix}{function.__qualname__}"
        self._name = name.replace("<", "").replace(">", "")[-120:]
        self.is_enabled = True

    @property
    def cache_path(self) -> str | None:
        """The folder in use, None without one."""
        folder = self._folder()
        return None if folder is None else str(folder)

    def enable(self) -> None:
        self.is_enabled = True

    def disable(self) -> None:
        self.is_enabled = False

    def flush(self) -> None:
        """Forget what is stored for this kernel."""
        folder = self._folder()
        for path in folder.glob(f"{self._name}-*") if folder else ():
            with contextlib.suppress(OSError):
                path.unlink()

    def holds_any(self) -> bool:
        """Whether anything is stored for this kernel."""
        folder = self._folder()
        return folder is not None and any(folder.glob(f"{self._name}-*"))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The stored kernel for a signature, or None: then Numba compiles it, and a note says so."""
        folder = self._folder()
        compiled = None
        if folder is not None:
            target_context.refresh()
            compiled = self._load(folder, sig, target_context)
        if compiled is None:
            note.begins(cached=folder is not None, is_shared=self.is_enabled)
        return compiled

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a compiled kernel. A full disk or a vanished folder costs the cache, never the call."""
        note.ended()
        folder = self._folder()
        with contextlib.suppress(Exception):
            if folder is None or data.lifted or data.library.has_dynamic_globals:
                return
            from numba.core.serialize import dumps

            key = self._key(sig, data.codegen)
            body = dumps((key, data._reduce()))
            write_atomically(self._path(folder, key), MAGIC + hashlib.sha256(body).digest() + body)

    def _load(self, folder: Path, sig: Any, target_context: Any) -> Any:
        key = self._key(sig, target_context.codegen())
        path = self._path(folder, key)
        try:
            content = path.read_bytes()
            body = content[HEAD_BYTES:]
            if content[:HEAD_BYTES] != MAGIC + hashlib.sha256(body).digest():
                raise ValueError("truncated or damaged")
            stored_key, payload = pickle.loads(body)
            if stored_key != key:
                return None
            from numba.core.compiler import CompileResult

            return CompileResult._rebuild(target_context, *payload)
        except FileNotFoundError:
            return None
        except Exception:  # whatever the file holds, the kernel can be compiled again
            _remove(path)
            return None

    def _folder(self) -> Path | None:
        return _stamp_folder(self._code.co_filename) if self.is_enabled else None

    def _key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        """What the machine code depends on once the sources are fixed."""
        settings = repr((config.OPT, config.BOUNDSCHECK, config.DEBUGINFO_DEFAULT, BOUNDS))
        return (sig, codegen.magic_tuple(), settings, self._code.co_firstlineno)

    def _path(self, folder: Path, key: tuple[Any, ...]) -> Path:
        return folder / f"{self._name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.kernel"


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


class Note:
    """Says on stderr that kernels compile, so that a call does not look stuck. EARMARK_QUIET=1 silences it.

    A pause is what one call of the API takes: each has a line when it begins, and another every few seconds.
    """

    def __init__(self) -> None:
        self.compiled = 0
        """Kernels compiled by this process."""
        self._is_replaced = False
        self._listener: Callable[[int], None] | None = None
        self._call: str | None = None
        self._active = self._said = -math.inf
        self._before = 0

    def begins(self, cached: bool, is_shared: bool = True) -> None:
        """A kernel is about to be compiled; `cached`: into a folder, so that the next process need not.

        `is_shared` is False for a kernel that calls a user's own function: it is compiled in each process again.
        """
        now, call = time.monotonic(), _call_of_the_api()
        what = f" for {call}" if call else ""
        if call != self._call or now - self._active > PAUSE_ENDS:
            self._call, self._before = call, self.compiled
            if cached:
                text = f"{what}, once on this machine; it takes seconds (`earmark warm` does it ahead of time) ..."
            elif not is_shared:
                text = f"{what}, at every start, because they contain a function of yours ..."
            else:
                text = (
                    f"{what}, at every start, because no cache folder of yours can be written "
                    "(set EARMARK_CACHE_DIR to a folder that only you can write) ..."
                )
            self._say(text)
        elif now - self._said > SAY_AGAIN:
            self._say(f"{what}: {self.compiled - self._before} so far ...")
        self._active = now

    def ended(self) -> None:
        """A kernel was compiled."""
        self.compiled += 1
        self._active = time.monotonic()
        if self._listener is not None:
            self._listener(self.compiled)

    @contextlib.contextmanager
    def replaced_by(self, listener: Callable[[int], None] | None) -> Iterator[None]:
        """Say nothing meanwhile; a listener, if there is one, hears the count after each kernel."""
        before = self._is_replaced, self._listener
        self._is_replaced, self._listener = True, listener
        try:
            yield
        finally:
            self._is_replaced, self._listener = before

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        if self._is_replaced or os.environ.get("EARMARK_QUIET", "0") not in ("", "0") or sys.stderr is None:
            return
        with contextlib.suppress(OSError, ValueError):
            print(f"earmark: compiling kernels{text}", file=sys.stderr, flush=True)


note = Note()


def _call_of_the_api() -> str | None:
    """What a user called: the outermost function of the matcher, or else of the package; None outside of it."""
    call: str | None = None
    is_matcher = False
    inside: FrameType | None = sys._getframe(1)
    while inside is not None:
        module = inside.f_globals.get("__name__", "")
        if module.startswith(f"{PACKAGE.name}.") and module != __name__ and not inside.f_code.co_name.startswith("<"):
            if module == f"{PACKAGE.name}.matcher":
                call, is_matcher = inside.f_code.co_name, True
            elif not is_matcher:
                call = inside.f_code.co_name
        inside = inside.f_back
    return "Matcher()" if call == "__init__" and is_matcher else call


@functools.cache
def _stamp_folder(source: str) -> Path | None:
    """The folder for the kernels of one source file, as it and all it imports are now."""
    root = cache_folder("kernels")
    if root is None:
        return None
    try:
        stamp = _stamp(Path(source))
    except OSError:
        return None
    module = ".".join(Path(source).with_suffix("").parts[-3:])
    folder = private_folder(root / f"{module}-{stamp}")
    if folder is not None:
        with contextlib.suppress(OSError):
            os.utime(folder)
            own = (path for path in root.iterdir() if path.name.rpartition("-")[0] == module)
            for old in sorted(own, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT_STAMPS:]:
                shutil.rmtree(old, ignore_errors=True)
    return folder


def _stamp(source: Path) -> str:
    """A digest that changes when a kernel of this file may: contents, because installed files all look equally old.

    A kernel's machine code holds its callees and the constants it names. All of these are imported, so the file and
    the modules of this package that it imports, directly or not, are what counts; an edit elsewhere leaves its
    kernels alone.
    """
    stamp = hashlib.sha256(repr((sys.version, sys.platform, numba.__version__)).encode())
    if not PACKAGE.is_dir():  # imported from a zip archive: all of it counts
        stamp.update(next(path for path in PACKAGE.parents if path.is_file()).read_bytes())
        if not source.is_file():
            return stamp.hexdigest()[:24]
    found, left = {source: source.read_bytes()}, [source]
    while left:
        for path in _imports(found[left.pop()]):
            if path not in found:
                found[path] = path.read_bytes()
                left.append(path)
    for path in sorted(found):
        stamp.update(f"{path.name} {len(found[path])}\n".encode())
        stamp.update(found[path])
    return stamp.hexdigest()[:24]


def _imports(content: bytes) -> list[Path]:
    """The files of this package that a source imports."""
    files = []
    for module, names in IMPORT.findall(content.decode()):
        folder = PACKAGE.joinpath(*module.split(".")[1:])
        tried = [folder, *(folder / name.split()[0] for name in names.strip("()").split(",") if name.strip())]
        files += [path for one in tried for path in (one.with_suffix(".py"), one / "__init__.py") if path.is_file()]
    return files
