"""Saved books: they come back whole, and whatever is wrong with a folder is a TableError."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.book.saved_books import (
    EVENTS,
    answers,
    arrays_in,
    change_array,
    filled,
    record_file,
    record_of,
    refused,
    replace_file,
    reseal,
    segment_file,
)

from earmark import Matcher
from earmark.book.folder import CURRENT, LOCK, MANIFEST, RECORD, SEGMENTS, sealed, version_folder
from earmark.book.segments import ALIGNED, LAYOUT, MAGIC, digest, read_packed
from earmark.errors import EarmarkError, TableError
from earmark.segment.segment import Segment

# --- there and back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("integers", [True, False])
@pytest.mark.parametrize("tags", [True, False])
def test_everything_comes_back(tmp_path: Path, mmap: bool, integers: bool, tags: bool) -> None:
    before = filled(integers, tags)
    before.save(tmp_path / "t")
    after = Matcher.load(tmp_path / "t", mmap=mmap)
    assert answers(after) == answers(before)
    assert after.never_matching() == before.never_matching() != []
    assert after.stats()["attributes"] == before.stats()["attributes"]
    schema = after._version.schema
    assert schema.zone_name == "Europe/Paris"
    assert [(a.declared, a.origin) for a in schema] == [(a.declared, a.origin) for a in before._version.schema]
    after._version.check()


def test_sequence_goes_on_where_it_was(tmp_path: Path) -> None:
    m = filled()
    m.save(tmp_path / "t")
    back = Matcher.load(tmp_path / "t")
    assert back._version.next_sequence == m._version.next_sequence == 7
    back.add("new", "age = 30")
    assert back.ids() == [*m.ids(), "new"]


def test_an_empty_book_comes_back(tmp_path: Path) -> None:
    m = Matcher(attributes={"a": "date"}, zone="Asia/Tokyo", strict=True, nan="null")
    m.save(tmp_path / "t")
    back = Matcher.load(tmp_path / "t")
    assert back.ids() == []
    schema = back._version.schema
    assert (schema.zone_name, schema.strict, schema.nan_is_null) == ("Asia/Tokyo", True, True)
    assert str(schema.by_name["a"].type) == "date"
    back.add(7, "a > '2024-01-01'")
    back.save(tmp_path / "t")
    back.remove(7)
    back.save(tmp_path / "t")
    last = Matcher.load(tmp_path / "t")
    last.add("text", "a IS NULL")
    assert last.match({}) == ["text"]


@pytest.mark.parametrize("name", ["with space", "ünïcode 🗂", "dots.in.name", "-dash", "a" * 200])
def test_any_name_of_a_folder(tmp_path: Path, name: str) -> None:
    m = filled()
    m.save(tmp_path / name / "deep" / "t")
    m.save(str(tmp_path / name / "deep" / "t"))
    assert answers(Matcher.load(tmp_path / name / "deep" / "t")) == answers(m)


def test_relative_paths_and_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    m = filled()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    m.save(tmp_path / "link")
    m.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    monkeypatch.chdir(tmp_path / "real")
    m.save(".")
    assert answers(Matcher.load(".")) == answers(Matcher.load(tmp_path / "link")) == answers(m)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "real"]


# --- mapping ---------------------------------------------------------------------------------------------------------


def mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return array is not None and type(array).__name__ in ("mmap", "memoryview")


def arrays_of(segment: Segment) -> list[Any]:
    return [a for a in (*segment.arrays, segment.asked.joined, segment.asked.start) if len(a)]


def test_mmap_maps_and_otherwise_reads(pristine: Path) -> None:
    for mmap in (True, False):
        (one,) = Matcher.load(pristine, mmap=mmap)._version.segments
        arrays = arrays_of(one.segment)
        assert [mapped(a) for a in arrays] == [mmap] * len(arrays)
        assert not any(a.flags.writeable for a in arrays)
        assert all(a.ctypes.data % 8 == 0 for a in arrays)


def test_one_file_for_each_segment(pristine: Path) -> None:
    names = {place: len(list((pristine / place).iterdir())) for place in ("segments", "keys", "versions")}
    assert names == {"segments": 1, "keys": 1, "versions": 1}


def test_a_mapped_book_outlives_its_folder(saved: Path) -> None:
    m, other = Matcher.load(saved), Matcher()
    wanted = answers(m)
    other.add("x", "a = 1")
    other.save(saved)
    assert answers(m) == wanted
    assert Matcher.load(saved).ids() == ["x"]
    shutil.rmtree(saved)
    assert answers(m) == wanted


def test_changes_after_opening_do_not_reach_the_files(saved: Path) -> None:
    before = {p: p.read_bytes() for p in saved.rglob("*") if p.is_file()}
    m = Matcher.load(saved)
    m.add("new", "age = 30 AND city = 'Aix'", weights={"age": 3}, score=7, tags={"tenant": "t0"})
    m.remove("sub 0 é")
    m.update("sub 5 é", "age > 0")
    m.add("wide", f"age = {2**60}")  # every bound on age gets a new key
    m._version.check()
    assert {p: p.read_bytes() for p in saved.rglob("*") if p.is_file()} == before
    m.save(saved)
    assert Matcher.load(saved).ids() == m.ids()


def test_an_older_version(saved: Path) -> None:
    m = Matcher.load(saved)
    before = answers(m)
    m.add("new", "age = 30")
    m.save(saved)
    assert answers(Matcher.load(saved, version=1)) == before
    assert answers(Matcher.load(saved, version=2)) == answers(Matcher.load(saved)) == answers(m)
    with pytest.raises(TableError, match="has no version 3; there are 1, 2"):
        Matcher.load(saved, version=3)
    for wrong in (0, -1, "1", True):
        with pytest.raises(TableError, match="expected the number of a version"):
            Matcher.load(saved, version=wrong)  # type: ignore[arg-type]


def test_reading_needs_no_permission_to_write(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated, since some users may write anywhere: nothing is opened for writing in the folder."""
    real = os.open

    def watched(path: Any, flags: int, *more: Any, **named: Any) -> int:
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        assert not (writes and str(path).startswith(str(saved))), path
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", watched)
    before = sorted(p.name for p in saved.rglob("*"))
    assert answers(Matcher.load(saved)) == answers(filled())
    assert sorted(p.name for p in saved.rglob("*")) == before


def test_verified_once_on_a_host(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who opens it first reads every byte; the others look at sizes and directories, until a file changes."""
    from earmark.book import segments

    verified: list[str] = []
    real = segments._verify
    monkeypatch.setattr(segments, "_verify", lambda file, *more: verified.append(file) or real(file, *more))
    monkeypatch.setenv("EARMARK_CACHE_DIR", str(tmp_path / "cache"))
    Matcher.load(saved)
    assert len(verified) == 3
    verified.clear()
    m = Matcher.load(saved)
    assert verified == []
    m.add("new", "age = 30")
    m.remove("sub 0 é")
    m.save(saved)
    file = segment_file(saved)
    raw = file.read_bytes()
    file.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    refused(saved, "checksum")


# --- damage ----------------------------------------------------------------------------------------------------------


def every_file(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != LOCK)


WRONG = "damaged|not an earmark book|this earmark reads"


def test_a_truncated_file(saved: Path) -> None:
    for file in every_file(saved):
        raw = file.read_bytes()
        for size in {0, 1, len(raw) // 2, len(raw) - 1}:
            file.write_bytes(raw[:size])
            refused(saved, WRONG)
        file.write_bytes(raw)
    Matcher.load(saved)


def test_a_flipped_byte(saved: Path) -> None:
    for file in every_file(saved):
        raw = file.read_bytes()
        places = {0, 1, 9, 20, 40, 70, len(raw) // 3, len(raw) // 2, len(raw) - 1}
        for at in sorted(place for place in places if place < len(raw)):
            file.write_bytes(raw[:at] + bytes([raw[at] ^ 0x01]) + raw[at + 1 :])
            refused(saved, WRONG)
        file.write_bytes(raw)


def test_a_flipped_byte_between_arrays(saved: Path) -> None:
    file = segment_file(saved)
    raw = bytearray(file.read_bytes())
    length = struct.unpack_from("<I", raw, 12)[0]
    assert raw[ALIGNED + length] == 0, "the directory ends on a border"
    raw[ALIGNED + length] = 1
    file.write_bytes(raw)
    refused(saved, "bytes between its arrays")


def test_a_longer_file(saved: Path) -> None:
    for file in every_file(saved):
        raw = file.read_bytes()
        file.write_bytes(raw + b"x")
        refused(saved, "damaged")
        file.write_bytes(raw)


MISSING = "lacks its file|has no book.json|has no CURRENT|has no version 1"


def test_a_missing_file(saved: Path) -> None:
    for file in every_file(saved):
        raw = file.read_bytes()
        file.unlink()
        refused(saved, MISSING)
        file.mkdir()
        refused(saved, MISSING)
        file.rmdir()
        file.write_bytes(raw)


def test_a_link_in_place_of_a_file(saved: Path, tmp_path: Path) -> None:
    for file in every_file(saved):
        raw = file.read_bytes()
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
        refused(saved, MISSING)
        file.unlink()
        file.write_bytes(raw)
    (saved / SEGMENTS).rename(tmp_path / "data")
    (saved / SEGMENTS).symlink_to(tmp_path / "data")
    refused(saved, "are elsewhere")


def test_a_pipe_in_place_of_a_file(saved: Path) -> None:
    file = segment_file(saved)
    file.unlink()
    os.mkfifo(file)
    refused(saved, "lacks its file")


def test_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for name in ("file", "empty", "absent", "file/inside"):
        refused(tmp_path / name, "not an earmark book|cannot be read")
    refused(Path("\0"))
    with pytest.raises(TableError, match="expected the path of a folder for the book, got 5"):
        Matcher.load(5)  # type: ignore[arg-type]


def test_a_file_of_another_book(saved: Path, tmp_path: Path) -> None:
    other = filled(tags=False)
    other.save(tmp_path / "other")
    segment_file(saved).write_bytes(segment_file(tmp_path / "other").read_bytes())
    refused(saved, "damaged")


# --- other formats ---------------------------------------------------------------------------------------------------


def test_formats_of_ours_that_are_gone(tmp_path: Path) -> None:
    for name, file, format_ in (
        ("table", "manifest.json", "earmark-table"),
        ("snapshot", "CURRENT", "earmark-snapshot"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text(json.dumps({"format": format_, "version": 1}))
        wanted = f"has the format '{format_}', from before earmark 0.1.0, which is not read any more"
        refused(tmp_path / name, wanted)
        with pytest.raises(TableError, match=wanted):
            Matcher().save(tmp_path / name)
        assert len(list((tmp_path / name).iterdir())) == 1


@pytest.mark.parametrize("file", [MANIFEST, CURRENT])
def test_another_layout(saved: Path, file: str) -> None:
    body = {k: v for k, v in json.loads((saved / file).read_text()).items() if k != "checksum"}
    (saved / file).write_text(json.dumps(sealed({**body, "layout": 2})))
    refused(saved, "has layout 2; this earmark reads layout 1")
    (saved / file).write_text(json.dumps(sealed({**body, "layout": True})))
    refused(saved, "has layout True")
    (saved / file).write_text(json.dumps(sealed({**body, "format": "parquet"})))
    refused(saved, "has the format 'parquet'; this earmark reads 'earmark-book'")


def test_another_layout_of_a_file(saved: Path) -> None:
    file = segment_file(saved)
    raw = bytearray(file.read_bytes())
    struct.pack_into("<I", raw, 8, LAYOUT + 1)
    file.write_bytes(raw)
    refused(saved, "has layout 2; this earmark reads layout 1")


# --- hostile content under right checksums ---------------------------------------------------------------------------


class Bomb:
    """Unpickling this would leave a trace."""

    def __reduce__(self) -> Any:
        return (os.mkdir, ("exploded",))


def with_directory(text: bytes, body: bytes = b"") -> bytes:
    """A packed file with this directory, under a right checksum."""
    header = struct.pack("<8sII16s", MAGIC, LAYOUT, len(text), bytes.fromhex(digest(text))).ljust(ALIGNED, b"\0")
    head = header + text
    return head + bytes(-len(head) % ALIGNED) + body if body else head


def listing(*arrays: Any) -> bytes:
    about = {"slots": 1, "ordered": True, "attributes": 0, "integer_ids": True, "index": None}
    return json.dumps({"kind": "segment", "about": about, "arrays": arrays}).encode()


SUM = digest(bytes(8))
CONTENTS = {
    "a pickle": pickle.dumps(Bomb()),
    "nothing": b"",
    "only the magic": MAGIC,
    "no directory": MAGIC + bytes(200),
    "a directory beyond the file": struct.pack("<8sII16s", MAGIC, LAYOUT, 2**32 - 1, bytes(16)) + bytes(200),
    "a directory that is no JSON": with_directory(b"nonsense"),
    "deep brackets": with_directory(b"[" * 50_000),
    "a list": with_directory(b"[1]"),
    "no arrays": with_directory(listing()),
    "another kind": with_directory(b'{"kind": "mail", "about": {}, "arrays": []}'),
    "an array that is none": with_directory(listing(5)),
    "an array of too few facts": with_directory(listing(["lo", "<i8"])),
    "objects": with_directory(listing(["lo", "|O", [1], 0, 8, SUM]), bytes(8)),
    "strings": with_directory(listing(["lo", "<U2", [1], 0, 8, SUM]), bytes(8)),
    "a record": with_directory(listing(["lo", [["a", "<i8"]], [1], 0, 8, SUM]), bytes(8)),
    "another order of bytes": with_directory(listing(["lo", ">i8", [1], 0, 8, SUM]), bytes(8)),
    "a huge shape": with_directory(listing(["lo", "<i8", [2**60], 0, 2**63, SUM]), bytes(8)),
    "a huge shape that wraps": with_directory(listing(["lo", "<i8", [2**61], 0, 0, SUM]), bytes(8)),
    "a shape beyond the file": with_directory(listing(["lo", "<i8", [2], 0, 16, SUM]), bytes(8)),
    "a negative shape": with_directory(listing(["lo", "<i8", [-1], 0, -8, SUM]), bytes(8)),
    "a shape of truths": with_directory(listing(["lo", "<i8", [True], 0, 8, SUM]), bytes(8)),
    "no dimension": with_directory(listing(["lo", "<i8", [], 0, 8, SUM]), bytes(8)),
    "five dimensions": with_directory(listing(["lo", "<i8", [1] * 5, 0, 8, SUM]), bytes(8)),
    "an array before the arrays": with_directory(listing(["lo", "<i8", [1], -64, 8, SUM]), bytes(8)),
    "an array behind a gap": with_directory(listing(["lo", "<i8", [1], 64, 8, SUM]), bytes(72)),
    "arrays that overlap": with_directory(
        listing(["lo", "<i8", [1], 0, 8, SUM], ["hi", "<i8", [1], 0, 8, SUM]), bytes(8)
    ),
    "an array twice": with_directory(listing(["lo", "<i8", [1], 0, 8, SUM], ["lo", "<i8", [1], 64, 8, SUM]), bytes(72)),
    "a name with a path": with_directory(listing(["../lo", "<i8", [1], 0, 8, SUM]), bytes(8)),
    "a name by number": with_directory(listing([5, "<i8", [1], 0, 8, SUM]), bytes(8)),
    "text": b"lo, hi\n1, 2\n" * 20,
}


@pytest.mark.parametrize("content", CONTENTS)
def test_foreign_content_in_any_file(saved: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved)
    for file in {file for file, _ in arrays_in(saved).values()}:
        raw = file.read_bytes()
        file.write_bytes(CONTENTS[content])
        refused(saved, WRONG)
        length = min(struct.unpack_from("<I", CONTENTS[content].ljust(64, b"\0"), 12)[0], len(CONTENTS[content]))
        checksum = digest(CONTENTS[content][ALIGNED : ALIGNED + length])
        record_file(saved, file, {"bytes": len(CONTENTS[content]), "checksum": checksum})
        refused(saved, WRONG)
        file.write_bytes(raw)
    assert not Path("exploded").exists()


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint64, np.float32, np.float64, np.uint8, np.bool_])
def test_another_type_in_any_array(pristine: Path, tmp_path: Path, dtype: Any) -> None:
    for name, (file, kind) in arrays_in(pristine).items():
        if read_packed(file, kind).arrays[name].dtype == dtype:
            continue
        folder = Path(shutil.copytree(pristine, tmp_path / name))
        with np.errstate(invalid="ignore"):
            change_array(folder, name, lambda a: a.astype(dtype))
        refused(folder, "wrong type or shape")
        shutil.rmtree(folder)


def put(at: int, value: Any) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[at] = value
        return array

    return change


def swapped(array: Any) -> Any:
    array[1], array[2] = array[2], array[1]
    return array


SEGMENT_ARRAYS = [
    *("clause_start", "constraint_start", "attr", "accepts_null", "interval_start", "lo", "hi", "weight", "score"),
    *("sequence", "ids_start", "ids_bytes", "asked_start", "asked_bytes", "tagset", "keys.4.start", "keys.4.keys"),
]
TAMPERED: list[tuple[str, Any]] = [
    *((name, lambda a: a[:-1]) for name in SEGMENT_ARRAYS),
    *((name, lambda a: np.append(a, a[-1:])) for name in ("attr", "lo", "hi", "accepts_null", "weight", "score")),
    *((name, lambda a: np.append(a, a[-1:])) for name in ("sequence", "tagset", "asked_bytes", "asked_start")),
    ("ids_start", lambda a: np.append(a, a[-1:])),
    *((f"{name}_start", put(0, 1)) for name in ("clause", "constraint", "interval", "asked", "ids")),
    *((f"{name}_start", put(1, 10**9)) for name in ("clause", "constraint", "interval", "asked", "ids")),
    *((f"{name}_start", put(1, -5)) for name in ("clause", "constraint", "interval", "asked", "ids")),
    *((f"{name}_start", put(-1, 2**31 - 1)) for name in ("clause", "constraint", "interval", "asked", "ids")),
    ("interval_start", lambda a: np.zeros(0, a.dtype)),
    ("ids_start", lambda a: np.zeros(0, a.dtype)),
    ("asked_start", lambda a: np.zeros(0, a.dtype)),
    ("attr", put(0, -1)),
    ("attr", put(0, 10**6)),
    ("attr", swapped),
    ("accepts_null", put(0, 2)),
    ("lo", put(0, 2**63 - 1)),
    ("hi", put(0, -(2**63))),
    ("lo", lambda a: a[::-1].copy()),
    ("weight", put(0, np.nan)),
    ("weight", put(0, np.inf)),
    ("weight", put(0, -1.0)),
    ("score", put(0, np.nan)),
    ("score", put(0, -np.inf)),
    ("sequence", put(1, 0)),
    ("sequence", put(0, -1)),
    ("sequence", put(0, 2**63 - 1)),
    ("sequence", put(5, 2**40)),
    ("tagset", put(0, 99)),
    ("tagset", put(0, -1)),
    ("ids_bytes", put(0, 0xFF)),
    ("ids_start", put(1, 0)),
    ("asked_bytes", put(0, 0xFF)),
    ("keys.4.keys", swapped),
    ("keys.4.keys", put(0, 0)),
    ("keys.4.keys", put(-1, 2**63 - 1)),
    ("keys.4.bytes", put(0, 0xFF)),
    ("keys.4.start", put(2, 0)),
]


@pytest.mark.parametrize(("name", "change"), TAMPERED, ids=[f"{n} {i}" for i, (n, _) in enumerate(TAMPERED)])
def test_arrays_that_break_a_rule(saved: Path, name: str, change: Any) -> None:
    change_array(saved, name, change)
    refused(saved, "is damaged")


def test_ids_that_occur_twice(saved: Path) -> None:
    """All ids here but the removed one have one length, so the second's bytes can become the first's."""
    (one,) = Matcher.load(saved)._version.segments
    width = len(one.segment.ids[0].encode())  # type: ignore[union-attr]
    change_array(saved, "ids_bytes", lambda a: np.concatenate([np.tile(a[:width], 6), a[6 * width :]]))
    refused(saved, "two living subscriptions have one id")


def test_bounds_outside_their_type(saved: Path) -> None:
    """A boolean of 7: no kernel would mind, but nothing could name the value."""
    (one,) = Matcher.load(saved)._version.segments
    ok = one.segment.schema.by_name["ok"].number
    arrays = one.segment.arrays
    position = int(arrays.interval_start[int(np.flatnonzero(arrays.attr == ok)[0])])
    change_array(saved, "hi", put(position, 7))
    refused(saved, "outside its type")


def test_bounds_of_strings_at_no_constant(saved: Path) -> None:
    (one,) = Matcher.load(saved)._version.segments
    arrays = one.segment.arrays
    of = np.repeat(arrays.attr, np.diff(arrays.interval_start))
    position = int(np.flatnonzero(of == one.segment.schema.by_name["city"].number)[0])
    change_array(saved, "lo", put(position, int(arrays.lo[position]) - 12345))
    refused(saved, "at no constant|do not ascend")


@pytest.mark.parametrize(
    "tags",
    [
        "5",
        "[]",
        "{}",
        "[5]",
        "[[[]]]",
        '[[], [["a"]]]',
        '[[], [["a", 5]]]',
        "[[" * 5000,
        '[[["a", "b"]]]',
        "nonsense",
        '"x"',
    ],
)
def test_tags_that_are_none(saved: Path, tags: str) -> None:
    change_array(saved, "tagsets", lambda a: np.frombuffer(tags.encode(), np.uint8))
    refused(saved, "is damaged")


@pytest.mark.parametrize(
    ("bitmap", "problem"),
    [
        (np.array([0], np.uint64), "number of living"),
        (np.array([3], np.uint64), "number of living"),
        (np.array([1 << 7], np.uint64), "slots that are not there"),
        (np.array([1, 0], np.uint64), "wrong size"),
        (np.array([1], np.int64), "wrong type"),
    ],
)
def test_bitmaps_that_are_none(saved: Path, bitmap: Any, problem: str) -> None:
    from earmark.book.segments import write_packed

    file = version_folder(saved, 1) / "removed"
    file.unlink()
    entry = write_packed(file, "removed", {}, {"removed.0": bitmap})
    reseal(saved, lambda record: record.update(removed=entry))
    refused(saved, problem)


def edit(*path: Any, value: Any = None, remove: bool = False) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        at: Any = record
        for step in path[:-1]:
            at = at[step]
        if remove:
            del at[path[-1]]
        else:
            at[path[-1]] = value

    return change


EDITS = {
    "a newer layout": (edit("layout", value=2), "has layout 2; this earmark reads layout 1"),
    "no layout": (edit("layout", remove=True), "has layout None"),
    "a layout that is true": (edit("layout", value=True), "has layout True"),
    "a foreign format": (edit("format", value="parquet"), "has the format 'parquet'"),
    "no format": (edit("format", remove=True), "has no format"),
    "another number": (edit("version", value=2), "is not the one published"),
    "a path upwards": (edit("segments", 0, "file", value="../lo"), "cannot be its own"),
    "an absolute path": (edit("segments", 0, "file", value="/etc/passwd"), "cannot be its own"),
    "a name with a line break": (edit("segments", 0, "file", value="0123456789abcdef\n"), "cannot be its own"),
    "a name with a null": (edit("keys", 0, "file", value="a\0"), "cannot be its own"),
    "a name by number": (edit("segments", 0, "file", value=5), "cannot be its own"),
    "an absent file": (edit("segments", 0, "file", value="0123456789abcdef"), "lacks its file"),
    "no segments": (edit("segments", value=[]), "counts of subscriptions disagree"),
    "segments as a number": (edit("segments", value=5), "damaged"),
    "a segment as a number": (edit("segments", 0, value=5), "damaged"),
    "a size as a text": (edit("segments", 0, "bytes", value="x"), "damaged"),
    "another checksum": (edit("segments", 0, "checksum", value="00" * 16), "another file than was recorded"),
    "more slots": (edit("segments", 0, "slots", value=700), "bitmap|slots"),
    "huge slots": (edit("segments", 0, "slots", value=10**30), "a count is|not as many slots"),
    "fewer living": (edit("segments", 0, "live", value=5), "number of living"),
    "more subscriptions": (edit("subscriptions", value=7), "counts of subscriptions disagree"),
    "a huge sequence": (edit("next_sequence", value=10**30), "a count is"),
    "a negative sequence": (edit("next_sequence", value=-1), "a count is"),
    "a small sequence": (edit("next_sequence", value=1), "sequence number is too great"),
    "a sequence as a text": (edit("next_sequence", value="7"), "a count is"),
    "no removed slots": (edit("removed", value=None), "number of living"),
    "bitmaps elsewhere": (edit("removed", "file", value="../../CURRENT"), "in another file"),
    "no keys": (edit("keys", value=[]), "keys of attribute 4 are not there"),
    "no uses": (edit("attributes", 0, "uses", remove=True), "damaged"),
    "other uses": (edit("attributes", 3, "uses", value=99), "miscounted"),
    "a foreign zone": (edit("zone", value="Mars/Olympus"), "time zone"),
    "a zone as a path": (edit("zone", value="../../etc/passwd"), "time zone"),
    "a zone as a number": (edit("zone", value=5), "time zone"),
    "no attributes": (edit("attributes", value=[]), "damaged"),
    "attributes as a text": (edit("attributes", value="abc"), "damaged"),
    "an attribute twice": (edit("attributes", 1, "name", value="d"), "listed twice"),
    "a nameless attribute": (edit("attributes", 0, "name", value=""), "name"),
    "an attribute by number": (edit("attributes", 0, "name", value=5), "name"),
    "an unknown type": (edit("attributes", 0, "type", value="blob"), "is not a type"),
    "a type as a list": (edit("attributes", 0, "type", value=["integer"]), "damaged"),
    "a type too wide": (edit("attributes", 0, "type", value="decimal(99,1)"), "damaged"),
    "a narrower type": (edit("attributes", 3, "type", value="boolean"), "outside its type"),
    "strings without keys": (edit("attributes", 3, "type", value="string"), "keys of attribute 3 are not there"),
    "strings no more": (edit("attributes", 4, "type", value="date"), "outside its type"),
    "an attribute without type": (edit("attributes", 0, value={}), "damaged"),
    "a router that is none": (edit("router", value={"file": "0123456789abcdef"}), "lacks its file"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_record(saved: Path, name: str) -> None:
    change, problem = EDITS[name]
    record = record_of(saved)
    assert [a["name"] for a in record["attributes"][3:5]] == ["age", "city"]
    change(record)
    file = version_folder(saved, 1) / RECORD
    honest = file.read_bytes()
    file.write_text(json.dumps(record))
    refused(saved)
    file.write_bytes(honest)
    reseal(saved, change)
    refused(saved, problem)


@pytest.mark.parametrize("file", [MANIFEST, CURRENT, f"versions/00000001/{RECORD}"])
@pytest.mark.parametrize(
    "text", ["", "5", "[]", "null", "{}", "[" * 100_000, '{"format": "earmark-book"}', "\0", "{" * 9]
)
def test_a_record_that_is_none(saved: Path, file: str, text: str) -> None:
    (saved / file).write_text(text)
    refused(saved, "not an earmark book|is damaged|has no format|has layout")


@given(st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_change_under_right_checksums_opens_or_is_refused(pristine: Path, data: st.DataObject) -> None:
    """Whatever opens must be safe to search: the version's own invariants hold, and every event gets an answer."""
    folder = pristine.parent / "fuzzed"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(pristine, folder)
    found = arrays_in(folder)
    name = data.draw(st.sampled_from(sorted(found)))
    file, kind = found[name]
    opened = read_packed(file, kind, mmap=False)
    arrays = {own: array.copy() for own, array in opened.arrays.items()}
    raw = arrays[name].view(np.uint8)
    for _ in range(data.draw(st.integers(1, 3))):
        if len(raw):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    replace_file(folder, file, kind, opened.about, arrays)
    try:
        m = Matcher.load(folder)
    except TableError:
        return
    m._version.check()
    for event in EVENTS:
        m.match(event)
        m.top_k(event, mode="relaxed")


def test_an_unknown_index(saved: Path) -> None:
    reseal(saved, edit("index", value="no such"))
    with pytest.raises(EarmarkError, match=r"the index 'no such', which this earmark does not have; load it with ano"):
        Matcher.load(saved)
    assert Matcher.load(saved, index="scan").ids()
