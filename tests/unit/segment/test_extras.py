"""Arrays that lie beside a table, such as those of its index: there and back, mapped, and refused when damaged."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from earmark import Matcher, TableError
from earmark import index as indexes
from earmark.keys.mapped_strings import MappedStrings
from earmark.keys.strings import StringKeys
from earmark.segment.files import open_stored, open_whole, save_stored, save_table
from earmark.segment.stored import stored_of

CONDITIONS = [f"a BETWEEN {i % 9} AND {i % 9 + 4} AND (b > {i % 5} OR s LIKE 'x{i % 7}%')" for i in range(200)]
EVENTS = [{"a": i % 12, "b": i % 7, "s": f"x{i % 9}y"} for i in range(60)]


def filled(index: str = "scan") -> Matcher:
    matcher = Matcher(index)
    matcher.add_many([(f"s{i}", text) for i, text in enumerate(CONDITIONS)])
    return matcher


def test_there_and_back(tmp_path: Path) -> None:
    extras = {
        "flat": np.arange(5, dtype=np.int16),
        "cube": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
        "none": np.empty((0, 3), np.uint64),
        "flags": np.array([True, False]),
    }
    save_table(filled()._table, tmp_path / "t", {"index": "scan"}, extras)
    for opened in (open_stored(tmp_path / "t"), open_stored(tmp_path / "t", mmap=False), open_whole(tmp_path / "t")[1]):
        assert opened.extras.keys() == extras.keys()
        for name, array in extras.items():
            found = opened.extras[name]
            assert found.dtype == array.dtype and np.array_equal(found, array) and not found.flags.writeable


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("Bad", np.arange(3)),
        ("a/b", np.arange(3)),
        ("objects", np.array([{}], object)),
        ("texts", np.array(["a"])),
        ("scalar", np.array(3)),
    ],
)
def test_what_cannot_be_stored(tmp_path: Path, name: str, array: np.ndarray) -> None:
    with pytest.raises((TableError, AssertionError)):
        save_table(filled()._table, tmp_path / "t", {}, {name: array})
    assert not (tmp_path / "t").exists()


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
        assert not any(built)  # only the empty one, before the table was there
    assert after.match_many(EVENTS).equals(before.match_many(EVENTS))
    assert after.verify(EVENTS).ok
    after.add("late", "a > 2")
    after.remove("s8")
    assert after.verify(EVENTS).ok
    assert Matcher.load(tmp_path / "t", index="scan").match_many(EVENTS).equals(before.match_many(EVENTS))


def test_a_damaged_index_is_refused(tmp_path: Path) -> None:
    filled("k_index").save(tmp_path / "t")
    stored = open_stored(tmp_path / "t")
    name, largest = max(stored.extras.items(), key=lambda extra: extra[1].nbytes)
    short = {**stored.extras, name: largest[: len(largest) // 2].copy()}
    save_stored(stored_of(open_whole(tmp_path / "t")[0])._replace(options=stored.options, extras=short), tmp_path / "u")
    with pytest.raises(TableError, match=r"the index of the table .* is damaged"):
        Matcher.load(tmp_path / "u")
    less = {other: array for other, array in stored.extras.items() if other != name}
    save_stored(stored_of(open_whole(tmp_path / "t")[0])._replace(options=stored.options, extras=less), tmp_path / "v")
    with pytest.raises(TableError, match=r"the index of the table .* is damaged"):
        Matcher.load(tmp_path / "v")


def test_without_verification_sizes_and_headers_count(tmp_path: Path) -> None:
    filled().save(tmp_path / "t")
    manifest = json.loads((tmp_path / "t" / "manifest.json").read_text())
    file = tmp_path / "t" / manifest["data"] / "lo.npy"
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert open_stored(tmp_path / "t", verify=False).slots == len(CONDITIONS)
    with pytest.raises(TableError, match="checksum"):
        open_stored(tmp_path / "t")
    file.write_bytes(data[:-8])
    with pytest.raises(TableError, match="bytes instead of"):
        open_stored(tmp_path / "t", verify=False)
    file.write_bytes(data.replace(b"<i8", b"<f8"))
    with pytest.raises(TableError, match="wrong type or shape"):
        open_stored(tmp_path / "t", verify=False)


@pytest.mark.parametrize("few", [0, 1 << 12])
def test_strings_are_looked_up_in_place(tmp_path: Path, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same keys as from Python objects, for constants, strings between them, and two dictionaries in one."""
    from earmark.keys import mapped_strings

    monkeypatch.setattr(mapped_strings, "_FEW", few)
    monkeypatch.setattr(mapped_strings, "_KEPT", 16)
    base, more = [b"a", b"ab", b"c", "é".encode()], [b"aa", b"b", b"zz"]
    keys = StringKeys().relabelled(base)
    older = _mapped(keys)
    assert keys.insert(more)
    newer = StringKeys.from_items([b"", *more], [keys.of_constant(c) for c in [b"", *more]])
    both = older.with_more(_mapped(newer))
    values = [*base, *more, b"", b"0", b"aaa", b"abc", b"bb", b"d", b"zzz", "ü".encode(), b"\xff"]
    for value in values * 3:
        assert both.of_value(value) == keys.of_value(value), value


def _mapped(keys: StringKeys) -> MappedStrings:
    constants, numbers = keys.items()
    start = np.concatenate([[0], np.cumsum([len(c) for c in constants])]).astype(np.int64)
    return MappedStrings(start, np.frombuffer(b"".join(constants), np.uint8), numbers)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float64])
def test_another_type_in_any_file_of_an_index_is_refused(tmp_path: Path, dtype: type) -> None:
    """Files whose checksums are right, so that only the index itself can see it."""

    m = Matcher("be_star_tree")
    m.add_many([(i, f"a BETWEEN {i} AND {i + 5} AND b > {i % 7}") for i in range(300)])
    m.save(tmp_path / "t")
    manifest = tmp_path / "t" / "manifest.json"
    content = json.loads(manifest.read_text())
    own = {path.stem for path in (tmp_path / "t" / content["data"]).glob("*.npy")}
    m = Matcher("scan")
    m.add_many([(i, f"a BETWEEN {i} AND {i + 5} AND b > {i % 7}") for i in range(300)])
    m.save(tmp_path / "plain")
    plain = json.loads((tmp_path / "plain" / "manifest.json").read_text())
    extra = own - {path.stem for path in (tmp_path / "plain" / plain["data"]).glob("*.npy")}
    assert len(extra) > 10
    for name in sorted(extra):
        path = tmp_path / "t" / content["data"] / f"{name}.npy"
        raw, array = path.read_bytes(), np.load(path)
        if array.dtype == dtype:
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            np.save(path, array.astype(dtype))
        changed = json.loads(manifest.read_text())
        changed["files"][path.name] = {
            **changed["files"][path.name],
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        manifest.write_text(json.dumps(changed))
        with pytest.raises(TableError):
            Matcher.load(tmp_path / "t")
        path.write_bytes(raw)
        manifest.write_text(json.dumps(content))
    assert len(Matcher.load(tmp_path / "t")) == 300
