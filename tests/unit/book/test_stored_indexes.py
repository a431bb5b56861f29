"""Indexes beside their segments: there and back, mapped, and refused when damaged; and packed files by themselves."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.book.saved_books import arrays_in, change_array, record_of, replace_file

from earmark import Matcher, TableError
from earmark import index as indexes
from earmark.book.segments import read_packed, write_packed
from earmark.keys.strings import MappedStrings, StringKeys

CONDITIONS = [f"a BETWEEN {i % 9} AND {i % 9 + 4} AND (b > {i % 5} OR s LIKE 'x{i % 7}%')" for i in range(200)]
EVENTS = [{"a": i % 12, "b": i % 7, "s": f"x{i % 9}y"} for i in range(60)]


def filled(index: str = "scan") -> Matcher:
    matcher = Matcher(index)
    matcher.add_many([(f"s{i}", text) for i, text in enumerate(CONDITIONS)])
    return matcher


def test_arrays_there_and_back(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {
        "flat": np.arange(5, dtype=np.int16),
        "cube": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        "none": np.empty((0, 3), np.uint64),
        "flags": np.array([True, False]),
        "columns": np.arange(12, dtype=np.int64).reshape(3, 4).T,
    }
    entry = write_packed(tmp_path / "f", "test", {"fact": [1, "é"]}, arrays)
    assert entry["bytes"] == (tmp_path / "f").stat().st_size
    for mmap in (True, False):
        opened = read_packed(tmp_path / "f", "test", entry, mmap=mmap, verify=True)
        assert opened.about == {"fact": [1, "é"]} and opened.arrays.keys() == arrays.keys()
        for name, array in arrays.items():
            found = opened.arrays[name]
            assert found.dtype == array.dtype and np.array_equal(found, array) and not found.flags.writeable
            assert not mmap or not found.size or found.ctypes.data % 64 == 0
    assert read_packed(tmp_path / "f", "test").entry == entry
    write_packed(tmp_path / "g", "test", {}, {})
    assert read_packed(tmp_path / "g", "test", verify=True).arrays == {}


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("Bad", np.arange(3)),
        ("a/b", np.arange(3)),
        ("objects", np.array([{}], object)),
        ("texts", np.array(["a"])),
        ("scalar", np.array(3)),
        ("big", np.arange(3, dtype=">i8")),
    ],
)
def test_what_cannot_be_stored(tmp_path: Path, name: str, array: np.ndarray) -> None:
    with pytest.raises((TableError, AssertionError)):
        write_packed(tmp_path / "f", "test", {}, {name: array})
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("index", indexes.names())
def test_a_matcher_keeps_its_index(tmp_path: Path, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = filled(index)
    before.remove("s3")
    before.update("s5", "a = 1 AND s = 'zz'")
    before.save(tmp_path / "t")
    built = []
    make = indexes.builder
    monkeypatch.setattr(
        indexes, "builder", lambda *given: lambda table: built.append(len(table.lo)) or make(*given)(table)
    )
    after = Matcher.load(tmp_path / "t")
    if after.stats()["index_bytes"]:
        assert not any(built)
    assert after.match_many(EVENTS).equals(before.match_many(EVENTS))
    assert after.verify(EVENTS).ok
    after.add("late", "a > 2")
    after.remove("s8")
    assert after.verify(EVENTS).ok
    after.check()
    assert Matcher.load(tmp_path / "t", index="scan").match_many(EVENTS).equals(before.match_many(EVENTS))
    monkeypatch.undo()
    other = Matcher.load(tmp_path / "t", index="blocks")
    assert other.index == "blocks" and other.match_many(EVENTS).equals(before.match_many(EVENTS))
    other.save(tmp_path / "t")
    assert record_of(tmp_path / "t")["index"] == "blocks"
    assert Matcher.load(tmp_path / "t").match_many(EVENTS).equals(before.match_many(EVENTS))


@pytest.mark.parametrize("index", ["be_star_tree", "mics"])
def test_an_index_that_forgot_slots(tmp_path: Path, index: str) -> None:
    """Removed before and after its last merge, stored and opened again: it forgets each of them once."""
    m = filled(index)
    m.remove_many([f"s{i}" for i in range(20)])
    m.add_many([(f"n{i}", f"a = {i % 9} AND b > 1") for i in range(180)])
    m._compactor.wait(30)
    m.remove_many(["s50", "n3"])
    m.save(tmp_path / "t")
    back = Matcher.load(tmp_path / "t")
    back.check()
    assert back.verify(EVENTS).ok and back.match_many(EVENTS).equals(m.match_many(EVENTS))
    back.remove_many([f"s{i}" for i in range(60, 90)])
    back.add_many([(f"m{i}", f"a = {i % 9}") for i in range(200)])
    back._compactor.wait(30)
    back.check()
    assert back.verify(EVENTS).ok
    back.save(tmp_path / "t")
    assert Matcher.load(tmp_path / "t").match_many(EVENTS).equals(back.match_many(EVENTS))


def test_a_damaged_index_is_refused(tmp_path: Path) -> None:
    filled("k_index").save(tmp_path / "t")
    found = {name: place for name, place in arrays_in(tmp_path / "t").items() if name.startswith("index.")}
    opened = {name: read_packed(file, kind, mmap=False) for name, (file, kind) in found.items()}
    name = max(found, key=lambda one: opened[one].arrays[one].nbytes)
    short = Path(shutil.copytree(tmp_path / "t", tmp_path / "u"))
    change_array(short, name, lambda a: a[: len(a) // 2].copy())
    with pytest.raises(TableError, match="the index 'k_index' is damaged"):
        Matcher.load(short)
    less = Path(shutil.copytree(tmp_path / "t", tmp_path / "v"))
    arrays = {other: array for other, array in opened[name].arrays.items() if other != name}
    replace_file(less, less / "segments" / found[name][0].name, "segment", opened[name].about, arrays)
    with pytest.raises(TableError, match="the index 'k_index' is damaged"):
        Matcher.load(less)


def test_without_verification_sizes_and_directories_count(tmp_path: Path) -> None:
    filled().save(tmp_path / "t")
    file, kind = arrays_in(tmp_path / "t")["lo"]
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert len(read_packed(file, kind).arrays["sequence"]) == len(CONDITIONS)
    with pytest.raises(AssertionError, match="checksum"):
        read_packed(file, kind, verify=True)
    file.write_bytes(data[:-8])
    with pytest.raises(AssertionError, match="reaches beyond the file"):
        read_packed(file, kind)


@pytest.mark.parametrize("few", [0, 1 << 12])
def test_strings_are_looked_up_in_place(tmp_path: Path, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same keys as from Python objects, for constants, strings between them, and two dictionaries in one."""
    from earmark.keys import strings

    monkeypatch.setattr(strings, "_FEW", few)
    monkeypatch.setattr(strings, "_KEPT", 16)
    base, more = [b"a", b"ab", b"c", "é".encode()], [b"aa", b"b", b"zz"]
    keys = StringKeys().relabelled(base)
    older = _mapped(*keys.items())
    assert keys.insert(more)
    both = older.with_more(_mapped(*keys.since(len(base) + 1)))
    values = [*base, *more, b"", b"0", b"aaa", b"abc", b"bb", b"d", b"zzz", "ü".encode(), b"\xff"]
    for value in values * 3:
        assert both.of_value(value) == keys.of_value(value), value


def _mapped(constants: list[bytes], numbers: Any) -> MappedStrings:
    start = np.concatenate([[0], np.cumsum([len(c) for c in constants])]).astype(np.int64)
    return MappedStrings(start, np.frombuffer(b"".join(constants), np.uint8), numbers)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float64])
def test_another_type_in_any_array_of_an_index_is_refused(tmp_path: Path, dtype: type) -> None:
    """Under right checksums, so that only the index itself can see it."""
    m = Matcher("be_star_tree")
    m.add_many([(i, f"a BETWEEN {i} AND {i + 5} AND b > {i % 7}") for i in range(300)])
    m.save(tmp_path / "t")
    extra = sorted(name for name in arrays_in(tmp_path / "t") if name.startswith("index."))
    assert len(extra) > 10
    for name in extra:
        file, kind = arrays_in(tmp_path / "t")[name]
        if read_packed(file, kind).arrays[name].dtype == dtype:
            continue
        folder = Path(shutil.copytree(tmp_path / "t", tmp_path / "u"))
        with np.errstate(invalid="ignore", over="ignore"):
            change_array(folder, name, lambda a: a.astype(dtype))
        with pytest.raises(TableError):
            Matcher.load(folder)
        shutil.rmtree(folder)
    assert len(Matcher.load(tmp_path / "t")) == 300
