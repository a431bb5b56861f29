"""Saved tables: they come back whole, and whatever is wrong with a folder is a TableError."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from earmark.segment.table import Table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.segment.saved_tables import EVENTS, answers, change_array, data_of, filled, manifest_of, refused, sealed

from earmark import Matcher
from earmark.errors import EarmarkError, TableError
from earmark.keys.schema import Schema
from earmark.segment import files
from earmark.segment.files import MANIFEST, open_table, save_table

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
    assert back._table.next_sequence == m._version.next_sequence == 7
    back.add("new", "age = 30")
    assert back.ids() == [*m.ids(), "new"]


def test_an_empty_table_comes_back(tmp_path: Path) -> None:
    Matcher().save(tmp_path / "t")
    assert Matcher.load(tmp_path / "t").ids() == []
    table = Table.empty(Schema())
    save_table(table, tmp_path / "u", {"k": "v"})
    assert open_table(tmp_path / "u")[1] == {"k": "v"}


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
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False


def test_mmap_maps_and_otherwise_reads(pristine: Path) -> None:
    for mmap in (True, False):
        view = open_table(pristine, mmap)[0]
        arrays = [a for a in (*view.arrays, view.asked_bytes, view.asked_start) if len(a)]
        assert [mapped(a) for a in arrays] == [mmap] * len(arrays)
        assert not any(a.flags.writeable for a in arrays)


def test_a_mapped_table_outlives_its_folder(saved: Path) -> None:
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


# --- damage ----------------------------------------------------------------------------------------------------------


def every_file(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


def test_a_truncated_file(saved: Path) -> None:
    for file in every_file(saved):
        raw = file.read_bytes()
        for size in {0, 1, len(raw) // 2, len(raw) - 1}:
            file.write_bytes(raw[:size])
            refused(saved, "damaged|not an earmark table")
        file.write_bytes(raw)
    open_table(saved)


def test_a_flipped_byte(saved: Path) -> None:
    for file in every_file(saved):
        raw = file.read_bytes()
        for at in sorted({0, 1, len(raw) // 3, len(raw) // 2, len(raw) - 1}):
            file.write_bytes(raw[:at] + bytes([raw[at] ^ 0x01]) + raw[at + 1 :])
            refused(saved, "damaged|not an earmark table|format version")
        file.write_bytes(raw)


def test_a_longer_file(saved: Path) -> None:
    for file in every_file(saved):
        raw = file.read_bytes()
        file.write_bytes(raw + b"x")
        refused(saved, "damaged")
        file.write_bytes(raw)


def test_a_missing_file(saved: Path) -> None:
    for file in every_file(saved):
        raw = file.read_bytes()
        file.unlink()
        refused(saved, "lacks its file|has no manifest.json")
        file.mkdir()
        refused(saved, "lacks its file|has no manifest.json")
        file.rmdir()
        file.write_bytes(raw)


def test_a_link_in_place_of_a_file(saved: Path, tmp_path: Path) -> None:
    for file in every_file(saved):
        raw = file.read_bytes()
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
        refused(saved, "lacks its file|has no manifest.json")
        file.unlink()
        file.write_bytes(raw)
    data = data_of(saved)
    data.rename(tmp_path / "data")
    data.symlink_to(tmp_path / "data")
    refused(saved, "lies elsewhere")


def test_a_pipe_in_place_of_a_file(saved: Path) -> None:
    file = data_of(saved) / "lo.npy"
    file.unlink()
    os.mkfifo(file)
    refused(saved, "lacks its file")


def test_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for name in ("file", "empty", "absent", "file/inside"):
        refused(tmp_path / name, "not an earmark table|cannot be read")
    refused(Path("\0"))
    with pytest.raises(TableError, match="given by its path; got 5"):
        open_table(5)  # type: ignore[arg-type]


# --- hostile content under right checksums ---------------------------------------------------------------------------


class Bomb:
    """Unpickling this would leave a trace."""

    def __reduce__(self) -> Any:
        return (os.mkdir, ("exploded",))


def npy(descr: Any, shape: str, body: bytes = b"") -> bytes:
    out = io.BytesIO()
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}"
    padding = 64 - (len(header) + 11) % 64
    out.write(b"\x93NUMPY\x01\x00" + (len(header) + padding + 1).to_bytes(2, "little"))
    out.write(header.encode() + b" " * padding + b"\n" + body)
    return out.getvalue()


def pickled() -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([Bomb()], object), allow_pickle=True)
    return out.getvalue()


def zipped() -> bytes:
    out = io.BytesIO()
    np.savez(out, x=np.zeros(3))
    return out.getvalue()


CONTENTS = {
    "a pickled array": pickled(),
    "a pickle": pickle.dumps(Bomb()),
    "a zip": zipped(),
    "nothing": b"",
    "only the magic": b"\x93NUMPY",
    "a newer version": b"\x93NUMPY\x09\x00" + bytes(200),
    "a long header": npy("<i8", "(" + " " * 60_000 + "0,)"),
    "deep brackets": npy("<i8", "(" * 5000 + ")" * 5000),
    "no tuple": npy("<i8", "5"),
    "a huge shape": npy("<i8", "(1152921504606846976,)"),
    "a huge shape that wraps": npy("<i8", "(2305843009213693952,)"),
    "a negative shape": npy("<i8", "(-1,)", bytes(8)),
    "two dimensions": npy("<i8", "(1, 1)", bytes(8)),
    "no dimension": npy("<i8", "()", bytes(8)),
    "another order of bytes": npy(">i8", "(1,)", bytes(8)),
    "complex numbers": npy("<c16", "(1,)", bytes(16)),
    "a record": npy([("a", "<i8")], "(1,)", bytes(8)),
    "objects": npy("|O", "(1,)", bytes(8)),
    "text": b"lo, hi\n1, 2\n",
}


@pytest.mark.parametrize("content", CONTENTS)
def test_foreign_content_in_any_file(saved: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved)
    for file in every_file(data_of(saved)):
        raw = file.read_bytes()
        file.write_bytes(CONTENTS[content])
        sealed(saved)
        refused(saved, "damaged")
        file.write_bytes(raw)
    assert not Path("exploded").exists()


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint64, np.float32, np.float64, np.uint8, np.bool_])
def test_another_type_in_any_file(saved: Path, dtype: Any) -> None:
    for file in sorted(data_of(saved).glob("*.npy")):
        raw, array = file.read_bytes(), np.load(file)
        if array.dtype == dtype:
            continue
        with np.errstate(invalid="ignore"):
            change_array(saved, file.stem, lambda a: a.astype(dtype))
        refused(saved, "wrong type or shape")
        file.write_bytes(raw)


def put(at: int, value: Any) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[at] = value
        return array

    return change


def swapped(array: Any) -> Any:
    array[1], array[2] = array[2], array[1]
    return array


TAMPERED: list[tuple[str, Any]] = [
    *((name, lambda a: a[:-1]) for name in (*files._DTYPES, "strings_4_start", "strings_4_keys") if name != "ids"),
    *((name, lambda a: np.append(a, a[-1:])) for name in ("attr", "lo", "hi", "accepts_null", "weight", "score")),
    *((name, lambda a: np.append(a, a[-1:])) for name in ("sequence", "tagset", "asked", "asked_start", "ids_start")),
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
    ("tagset", put(0, 99)),
    ("tagset", put(0, -1)),
    ("ids_bytes", put(0, 0xFF)),
    ("ids_start", put(1, 0)),
    ("asked", put(0, 0xFF)),
    ("strings_4_keys", swapped),
    ("strings_4_keys", put(0, 0)),
    ("strings_4_keys", put(-1, 2**63 - 1)),
    ("strings_4_bytes", put(0, 0xFF)),
    ("strings_4_start", put(2, 0)),
]


@pytest.mark.parametrize(("name", "change"), TAMPERED, ids=[f"{n} {i}" for i, (n, _) in enumerate(TAMPERED)])
def test_arrays_that_break_a_rule(saved: Path, name: str, change: Any) -> None:
    assert (data_of(saved) / f"{name}.npy").exists()
    change_array(saved, name, change)
    refused(saved, "is damaged")


def test_ids_that_occur_twice(saved: Path) -> None:
    """All ids here have one length, so the second's bytes can become the first's."""
    start = np.load(data_of(saved) / "ids_start.npy")
    width = int(start[1])
    change_array(saved, "ids_bytes", lambda a: np.tile(a[:width], len(start) - 1))
    refused(saved, "an id is used twice")


def test_bounds_outside_their_type(saved: Path) -> None:
    """A boolean of 7: no kernel would mind, but nothing could name the value."""
    table = open_table(saved)[0]
    ok = table.schema.by_name["ok"].number
    arrays = table.arrays
    position = int(arrays.interval_start[int(np.flatnonzero(arrays.attr == ok)[0])])
    change_array(saved, "hi", put(position, 7))
    refused(saved, "outside its type")


def test_bounds_of_strings_at_no_constant(saved: Path) -> None:
    table = open_table(saved)[0]
    arrays = table.arrays
    of = np.repeat(arrays.attr, np.diff(arrays.interval_start))
    position = int(np.flatnonzero(of == table.schema.by_name["city"].number)[0])
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
    (data_of(saved) / "tags.json").write_text(tags)
    sealed(saved)
    refused(saved, "is damaged")


def edit(*path: Any, value: Any = None, remove: bool = False) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        at: Any = manifest
        for step in path[:-1]:
            at = at[step]
        if remove:
            del at[path[-1]]
        else:
            at[path[-1]] = value

    return change


def rename_file(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def change(manifest: dict[str, Any]) -> None:
        manifest["files"][new] = manifest["files"].pop(old)

    return change


EDITS = {
    "a newer version": (edit("version", value=2), "format version 2; this earmark reads version 1"),
    "no version": (edit("version", remove=True), "format version None"),
    "a version that is true": (edit("version", value=True), "format version True"),
    "a foreign format": (edit("format", value="parquet"), "is not an earmark table"),
    "no format": (edit("format", remove=True), "is not an earmark table"),
    "data above": (edit("data", value=".."), "outside the folder"),
    "data elsewhere": (edit("data", value="/etc"), "outside the folder"),
    "data by number": (edit("data", value=5), "damaged"),
    "no data": (edit("data", remove=True), "damaged"),
    "absent data": (edit("data", value="data-0123456789abcdef"), "lacks its file"),
    "a path upwards": (rename_file("lo.npy", "../lo.npy"), "cannot belong"),
    "an absolute path": (rename_file("lo.npy", "/etc/passwd"), "cannot belong"),
    "a name with a line break": (rename_file("lo.npy", "lo.npy\n"), "cannot belong"),
    "a name with a null": (rename_file("lo.npy", "lo\0.npy"), "cannot belong"),
    "an unlisted file": (edit("files", "lo.npy", remove=True), "lo.npy is not in the manifest"),
    "no files": (edit("files", value={}), "not in the manifest"),
    "files as a list": (edit("files", value=[1]), "damaged"),
    "a file as a number": (edit("files", "lo.npy", value=5), "damaged"),
    "a size as a text": (edit("files", "lo.npy", "bytes", value="x"), "damaged"),
    "more slots": (edit("slots", value=7), "ids and slots disagree"),
    "huge slots": (edit("slots", value=10**30), "ids and slots disagree"),
    "a huge sequence": (edit("next_sequence", value=10**30), "a count is"),
    "a negative sequence": (edit("next_sequence", value=-1), "a count is"),
    "a sequence as a text": (edit("next_sequence", value="7"), "a count is"),
    "an infinite generation": (edit("generation", value=float("inf")), "a count is"),
    "a generation as a list": (edit("generation", value=[]), "a count is"),
    "no generation": (edit("generation", remove=True), "damaged"),
    "options as a list": (edit("options", value=[]), "options"),
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
    "strings without keys": (edit("attributes", 3, "type", value="string"), "not in the manifest"),
    "strings no more": (edit("attributes", 4, "type", value="date"), "outside its type"),
    "an attribute without type": (edit("attributes", 0, value={}), "damaged"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_manifest(saved: Path, name: str) -> None:
    change, problem = EDITS[name]
    manifest = manifest_of(saved)
    assert [a["name"] for a in manifest["attributes"][3:5]] == ["age", "city"]
    change(manifest)
    honest = (saved / MANIFEST).read_bytes()
    (saved / MANIFEST).write_text(json.dumps(manifest))
    refused(saved)
    (saved / MANIFEST).write_bytes(honest)
    sealed(saved, change)
    refused(saved, problem)


@pytest.mark.parametrize(
    "text", ["", "5", "[]", "null", "{}", "[" * 100_000, '{"format": "earmark-table"}', "\0", "{" * 9]
)
def test_a_manifest_that_is_none(saved: Path, text: str) -> None:
    (saved / MANIFEST).write_text(text)
    refused(saved, "not an earmark table|is damaged|format version")


@given(st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_change_under_right_checksums_opens_or_is_refused(pristine: Path, data: st.DataObject) -> None:
    """Whatever opens must be safe to search: the table's own invariants hold, and every event gets an answer."""
    folder = pristine.parent / "fuzzed"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(pristine, folder)
    file = data.draw(st.sampled_from(sorted(p.name for p in data_of(folder).glob("*.npy"))))
    raw = bytearray((data_of(folder) / file).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(128, len(raw) - 1)) if len(raw) > 128 else 0] = data.draw(st.integers(0, 255))
    (data_of(folder) / file).write_bytes(raw)
    sealed(folder)
    try:
        m = Matcher.load(folder)
    except TableError:
        return
    m._version.check()
    for event in EVENTS:
        m.match(event)
        m.top_k(event, mode="relaxed")


def test_an_unknown_index_in_the_options(saved: Path) -> None:
    sealed(saved, edit("options", value={"index": "no such"}))
    with pytest.raises(EarmarkError, match="no such"):
        Matcher.load(saved)
    assert Matcher.load(saved, index="scan").ids()
