"""A layer under SQLite that fails the n-th file operation, as SQLite's own tests do.

It is a VFS made of the usual one: a copy of its record, whose files have other methods. Python's own SQLite library is
called through ctypes, so what is tested is the code that a book runs on.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_int64, c_void_p, cast, pointer

FULL, OPEN, DELETE = 13, 14, 10 | 10 << 8
READ, WRITE, SYNC, TRUNCATE, SIZE = (10 | n << 8 for n in (1, 3, 4, 6, 7))
ACCESS, LOCK, SHM_LOCK, SHM_MAP = (10 | n << 8 for n in (13, 15, 20, 21))
UNLOCKS = 1
"""A flag of xShmLock: this gives a lock back, which does not fail."""
CLOSE_M, READ_M = c_void_p, CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
TRUNCATE_M, SYNC_M = CFUNCTYPE(c_int, c_void_p, c_int64), CFUNCTYPE(c_int, c_void_p, c_int)
SIZE_M = CFUNCTYPE(c_int, c_void_p, POINTER(c_int64))
OPEN_M = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
DELETE_M = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)
ACCESS_M = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_void_p)
LOCK_M = CFUNCTYPE(c_int, c_void_p, c_int)
SHM_MAP_M = CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_int, c_void_p)
SHM_LOCK_M = CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_int)


class Methods(Structure):
    """sqlite3_io_methods."""

    _fields_ = [
        ("iVersion", c_int),
        ("xClose", c_void_p),
        ("xRead", READ_M),
        ("xWrite", READ_M),
        ("xTruncate", TRUNCATE_M),
        ("xSync", SYNC_M),
        ("xFileSize", SIZE_M),
        ("xLock", LOCK_M),
        ("unchanged", c_void_p * 5),
        ("xShmMap", SHM_MAP_M),
        ("xShmLock", SHM_LOCK_M),
        ("others", c_void_p * 4),
    ]


class File(Structure):
    """sqlite3_file, as far as it is public."""

    _fields_ = [("methods", POINTER(Methods))]


class Vfs(Structure):
    """sqlite3_vfs."""

    _fields_ = [
        ("iVersion", c_int),
        ("szOsFile", c_int),
        ("mxPathname", c_int),
        ("pNext", c_void_p),
        ("zName", c_char_p),
        ("pAppData", c_void_p),
        ("xOpen", OPEN_M),
        ("xDelete", DELETE_M),
        ("xAccess", ACCESS_M),
        ("others", c_void_p * 13),
    ]


class FailingFiles:
    """Counts file operations while it is on, and fails the one with the number `at`, or all from there on."""

    def __init__(self) -> None:
        self.is_on, self.at, self.lasting = False, 0, False
        self.done: list[str] = []
        """The operations since it was armed."""
        self._kept: dict[int, Methods] = {}

    def arm(self, at: int = 0, lasting: bool = False) -> None:
        """Begin to count."""
        self.is_on, self.at, self.lasting, self.done = True, at, lasting, []

    def disarm(self) -> None:
        """Let everything pass."""
        self.is_on = False

    def fails(self, name: str) -> bool:
        """Count an operation; whether it is to fail."""
        if not self.is_on:
            return False
        self.done.append(name)
        count = len(self.done)
        return bool(self.at) and (count == self.at or (self.lasting and count > self.at))

    def methods(self, usual: Methods) -> Methods:
        """The methods of a file that fail; made once for each kind of file."""
        key = ctypes.addressof(usual)
        if key in self._kept:
            return self._kept[key]
        made = Methods()
        ctypes.memmove(byref(made), byref(usual), ctypes.sizeof(Methods))
        names = ("xRead", "xWrite", "xTruncate", "xSync", "xFileSize", "xLock", "xShmMap", "xShmLock")
        real = {name: getattr(usual, name) for name in names}
        made.xRead = READ_M(lambda *a: READ if self.fails("read") else real["xRead"](*a))
        made.xWrite = READ_M(lambda *a: (FULL if self.at % 2 else WRITE) if self.fails("write") else real["xWrite"](*a))
        made.xTruncate = TRUNCATE_M(lambda *a: TRUNCATE if self.fails("truncate") else real["xTruncate"](*a))
        made.xSync = SYNC_M(lambda *a: SYNC if self.fails("sync") else real["xSync"](*a))
        made.xFileSize = SIZE_M(lambda *a: SIZE if self.fails("size") else real["xFileSize"](*a))
        made.xLock = LOCK_M(lambda *a: LOCK if self.fails("lock") else real["xLock"](*a))
        if usual.xShmMap:  # not in the files that SQLite keeps in memory
            made.xShmMap = SHM_MAP_M(lambda *a: SHM_MAP if self.fails("map") else real["xShmMap"](*a))
            made.xShmLock = SHM_LOCK_M(
                lambda *a: SHM_LOCK if not a[3] & UNLOCKS and self.fails("share") else real["xShmLock"](*a)
            )
        self._kept[key] = made
        return made


def library() -> ctypes.CDLL | None:
    """The SQLite library that Python uses; None where it cannot be called from outside."""
    try:
        found = ctypes.CDLL(_sqlite3.__file__)
        found.sqlite3_libversion.restype = c_char_p
        same = found.sqlite3_libversion().decode() == sqlite3.sqlite_version
    except (OSError, AttributeError):
        return None
    found.sqlite3_vfs_find.restype = POINTER(Vfs)
    found.sqlite3_vfs_find.argtypes = [c_char_p]
    found.sqlite3_vfs_register.argtypes = [POINTER(Vfs), c_int]
    found.sqlite3_vfs_unregister.argtypes = [POINTER(Vfs)]
    return found if same else None


@contextmanager
def failing_files(sqlite: ctypes.CDLL) -> Iterator[FailingFiles]:
    """Inside, new connections use files that can fail."""
    failing, usual = FailingFiles(), sqlite.sqlite3_vfs_find(None)
    made = Vfs()
    ctypes.memmove(byref(made), usual, ctypes.sizeof(Vfs))
    made.zName = b"failing"
    real_open, real_delete, real_access = usual.contents.xOpen, usual.contents.xDelete, usual.contents.xAccess

    def opened(vfs: int, name: int, file: int, flags: int, out: int) -> int:
        if failing.fails("open"):
            cast(file, POINTER(c_void_p))[0] = None  # so that SQLite does not close it
            return OPEN
        code = int(real_open(vfs, name, file, flags, out))
        there = cast(file, POINTER(File)).contents
        if code == 0 and there.methods:
            there.methods = pointer(failing.methods(there.methods.contents))
        return code

    made.xOpen = OPEN_M(opened)
    made.xDelete = DELETE_M(lambda *a: DELETE if failing.fails("delete") else real_delete(*a))
    made.xAccess = ACCESS_M(lambda *a: ACCESS if failing.fails("access") else real_access(*a))
    sqlite.sqlite3_vfs_register(byref(made), 1)
    try:
        yield failing
    finally:
        failing.disarm()
        sqlite.sqlite3_vfs_unregister(byref(made))
        _kept.append((made, failing))  # connections that are still open use them


_kept: list[object] = []
