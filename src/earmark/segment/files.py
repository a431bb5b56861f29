"""A table as a folder: one `.npy` a column, so that it opens by mapping; a manifest with sizes and checksums.

    ads.earmark/
      manifest.json      format, version, counts, attributes, and for every file its size and checksum
      data-3f08c1…/      the files, in a folder that the manifest names
        lo.npy hi.npy …  the arrays of arrays.py
        asked*.npy       what was asked        ids*.npy     strings_N_*.npy   constants of string attribute N
        tags.json        distinct sets of tags (when there are tags)
        extra_*.npy      arrays that go with the table, such as those of its index

A save writes a new data folder, flushes it, and then replaces the manifest in one step: whoever opens the table finds
the old one or the new one whole, also when the save is killed (the next save removes what was left). One save at a
time: the folder is locked.

Whatever is read is treated as hostile: no pickles, names from a fixed pattern, no links, sizes and checksums first,
then every invariant that kernels rely on. A truncated, changed, foreign or newer folder is a TableError. Someone who
knows that a folder was verified before may open it with `verify=False`: then sizes and headers are looked at, and
nothing that takes time or memory in proportion to the table.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from earmark.errors import EarmarkError, TableError, require
from earmark.flat.packed import PackedStrings, packed, unpacked
from earmark.flat.types import I64, frozen
from earmark.keys.mapped_strings import MappedStrings
from earmark.keys.numbers import check_numbers
from earmark.keys.schema import INT64_MAX, INT64_MIN, NUMBER, WIDE_NUMBER, Attribute, Schema, attribute_type, check_name
from earmark.keys.strings import StringKeys
from earmark.segment.arrays import SegmentArrays
from earmark.segment.rows import check_arrays
from earmark.segment.segment import NO_TAGS, Tags
from earmark.segment.stored import Stored
from earmark.segment.subscription import checked_id, checked_tags

FORMAT, VERSION = "earmark-table", 1
MANIFEST = "manifest.json"
MAX_SEQUENCE = 2**62
_MAX_MANIFEST = 256 << 20
_ATTEMPTS = 5  # at opening a table that is being replaced
_NAME = re.compile(r"[a-z0-9_]{1,60}\.(npy|json)\Z")
_EXTRA = re.compile(r"extra_([a-z0-9_]{1,50})\.npy\Z")
_EXTRA_KINDS, _EXTRA_DIMENSIONS = "iufb", 4
_DATA = re.compile(r"data-[0-9a-f]{16}\Z")
_UNFINISHED = re.compile(r"\.manifest-[0-9a-f]{16}\Z")
_DTYPES: dict[str, DTypeLike] = {
    **dict.fromkeys(("clause_start", "constraint_start", "attr", "interval_start", "tagset"), np.int32),
    **dict.fromkeys(("lo", "hi", "sequence", "asked_start", "ids", "ids_start"), np.int64),
    **dict.fromkeys(("weight", "score"), np.float64),
    **dict.fromkeys(("accepts_null", "asked", "ids_bytes"), np.uint8),
}
DAMAGE = (AssertionError, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)
"""What reading hostile data may raise on the way to one of our errors."""


# --- saving --------------------------------------------------------------------------------------------------


def save_stored(stored: Stored, folder: str | os.PathLike[str]) -> None:
    """Write subscriptions to a folder; an existing table there is replaced, in one step at the end."""
    path = _path(folder)
    try:
        target = path.resolve()
        refuse_foreign(target)
        made = not target.exists()
        target.mkdir(parents=True, exist_ok=True)
        try:
            with locked(target):
                _replace(target, stored)
        finally:
            if made and not (target / MANIFEST).exists():
                shutil.rmtree(target, ignore_errors=True)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise TableError(f"the table cannot be saved to {str(folder)!r}: {reason}") from None


def _path(folder: Any) -> Path:
    try:
        return Path(folder)
    except TypeError:
        raise TableError(f"a table is saved to a folder, given by its path; got {folder!r}") from None


def refuse_foreign(target: Path) -> None:
    """Raise TableError where a save would overwrite what is not a saved table."""
    if not target.exists():
        return
    try:
        if target.is_dir():
            if all(_is_ours(entry.name) for entry in target.iterdir()):
                return  # empty, or what a killed save left
            if (target / MANIFEST).is_file() and read_json(target / MANIFEST).get("format") == FORMAT:
                return
    except (ValueError, RecursionError, AttributeError):
        pass
    raise TableError(f"{str(target)!r} exists and is not an earmark table; it is not overwritten")


def _is_ours(name: str) -> bool:
    return bool(_DATA.match(name) or _UNFINISHED.match(name))


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Alone with a folder, where the file system has locks."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(target: Path, stored: Stored) -> None:
    """Write a data folder and point the manifest at it. Called with the folder locked."""
    token = secrets.token_hex(8)
    data, unfinished = target / f"data-{token}", target / f".manifest-{token}"
    try:
        data.mkdir()
        files = {name: write_file(data / name, content) for name, content in _contents(stored).items()}
        flush_folder(data)
        write_file(unfinished, _manifest(stored, data.name, files))
        unfinished.replace(target / MANIFEST)
    except BaseException:
        if not _points_at(target, data.name):  # else it was interrupted when all was done
            shutil.rmtree(data, ignore_errors=True)
            unfinished.unlink(missing_ok=True)
        raise
    flush_folder(target)
    with suppress(OSError):  # it need not be readable
        flush_folder(target.parent)
    for entry in list(target.iterdir()):
        if entry != data and _DATA.match(entry.name):
            shutil.rmtree(entry, ignore_errors=True)
        elif _UNFINISHED.match(entry.name):
            entry.unlink(missing_ok=True)


def _points_at(target: Path, data: str) -> bool:
    try:
        return bool(read_json(target / MANIFEST)["data"] == data)
    except (OSError, *DAMAGE):
        return False


def _contents(stored: Stored) -> dict[str, Any]:
    found: dict[str, Any] = {f"{name}.npy": array for name, array in stored.arrays._asdict().items()}
    found["asked_start.npy"], found["asked.npy"] = stored.asked.start, stored.asked.joined
    if isinstance(stored.ids, PackedStrings):
        found["ids_start.npy"], found["ids_bytes.npy"] = stored.ids.start, stored.ids.joined
    else:
        found["ids.npy"] = stored.ids
    for number, strings in stored.schema.strings.items():
        constants, keys = strings.items()
        texts = packed(constants)
        for part, array in (("start", texts.start), ("bytes", texts.joined), ("keys", keys)):
            found[f"strings_{number}_{part}.npy"] = array
    if len(stored.tagset):
        found["tagset.npy"] = stored.tagset
        found["tags.json"] = stored.tagsets
    for name, array in stored.extras.items():
        require(_EXTRA.match(f"extra_{name}.npy"), f"an array cannot be called {name!r}")
        require(array.dtype.kind in _EXTRA_KINDS and 1 <= array.ndim <= _EXTRA_DIMENSIONS, f"{name} cannot be stored")
        found[f"extra_{name}.npy"] = array
    return found


def write_file(path: Path, data: Any) -> dict[str, Any]:
    """Write one file, flushed to disk; its size and checksum."""
    head, body = b"", memoryview(b"")
    if isinstance(data, np.ndarray):
        header = io.BytesIO()
        array = np.ascontiguousarray(data)
        np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
        head, body = header.getvalue(), memoryview(array.reshape(-1).view(np.uint8).data)
    else:
        head = json.dumps(data, ensure_ascii=True).encode()
    with path.open("xb") as file:
        file.write(head)
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    checksum = hashlib.blake2b(head, digest_size=16)
    checksum.update(body)
    return {"bytes": len(head) + len(body), "blake2b": checksum.hexdigest()}


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _manifest(stored: Stored, data: str, files: dict[str, Any]) -> dict[str, Any]:
    body = {
        "format": FORMAT,
        "version": VERSION,
        "slots": stored.slots,
        "next_sequence": stored.next_sequence,
        "options": dict(stored.options),
        **schema_record(stored.schema),
        "data": data,
        "files": files,
    }
    return {**body, "blake2b": record_checksum(body)}


def record_checksum(body: dict[str, Any]) -> str:
    """The checksum that a manifest carries of the rest of itself."""
    return hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).hexdigest()


def schema_record(schema: Schema) -> dict[str, Any]:
    """Attributes and zone as JSON."""
    return {
        "zone": schema.zone_name,
        "strict": schema.strict,
        "nan_is_null": schema.nan_is_null,
        "attributes": [
            {
                "name": a.name,
                "type": str(a.type) if a.type else None,
                "keyed": bool(a.type and a.type.keyed),
                "declared": a.declared,
                "origin": a.origin,
            }
            for a in schema
        ],
    }


def flush_folder(folder: Path) -> None:
    """See that the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- opening -------------------------------------------------------------------------------------------------


def open_stored(
    folder: str | os.PathLike[str], mmap: bool = True, verify: bool = True, in_place: bool = False
) -> Stored:
    """The arrays of a folder; without `verify`, checked only as the module says.

    `in_place`: the schema has string keys for look-ups in the files, instead of such as can take more constants.
    """
    opened: Stored = _opened(folder, lambda path, manifest: _stored(path, manifest, mmap, verify, in_place))
    return opened


def manifest_checksum(folder: str | os.PathLike[str]) -> str:
    """What identifies the content of a folder: the checksum of its manifest, which holds those of its files."""
    checksum: str = _guarded(_path(folder), _read_manifest)["blake2b"]
    return checksum


def _opened(folder: str | os.PathLike[str], read: Any) -> Any:
    path = _path(folder)
    for attempt in range(_ATTEMPTS):
        manifest = _guarded(path, _read_manifest)
        try:
            return _guarded(path, lambda p, m=manifest: read(p / m["data"], m))
        except TableError:
            # It may have been replaced while we read: then the manifest has changed.
            if attempt + 1 == _ATTEMPTS or _guarded(path, _read_manifest)["blake2b"] == manifest["blake2b"]:
                raise
    raise AssertionError("unreachable")


def _guarded(path: Path, read: Any) -> Any:
    try:
        return read(path)
    except TableError:
        raise
    except OSError as problem:
        raise TableError(f"the table {str(path)!r} cannot be read: {problem.strerror or problem}") from None
    except (EarmarkError, *DAMAGE) as problem:
        raise TableError(f"the table {str(path)!r} is damaged: {str(problem) or type(problem).__name__}") from None


def read_json(file: Path) -> Any:
    """A small JSON file."""
    if file.stat().st_size > _MAX_MANIFEST:
        raise ValueError("it is too large")
    return json.loads(file.read_bytes())


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    if file.is_symlink() or not file.is_file():
        raise TableError(f"{str(path)!r} is not an earmark table: it has no {MANIFEST}")
    try:
        manifest = read_json(file)
    except (ValueError, RecursionError):
        raise TableError(f"the manifest of {str(path)!r} is damaged: it is not JSON") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise TableError(f"{str(path)!r} is not an earmark table")
    version = manifest.get("version")
    if version != VERSION or isinstance(version, bool):
        raise TableError(f"{str(path)!r} has format version {version!r}; this earmark reads version {VERSION}")
    body = {name: value for name, value in manifest.items() if name != "blake2b"}
    if manifest.get("blake2b") != record_checksum(body):
        raise TableError(f"the manifest of {str(path)!r} is damaged: its checksum is wrong")
    require(_DATA.match(manifest["data"]), "its data lies outside the folder")
    require(isinstance(manifest["options"], dict), "its options are not a mapping")
    return manifest


def check_file(folder: Path, name: str, expected: Mapping[str, Any], verify: bool) -> None:
    """Raise unless a file is there, of its size, and (with `verify`) of its checksum."""
    require(_NAME.match(name), f"it lists a file {name!r} that cannot belong to a table")
    file = folder / name
    if file.is_symlink() or not file.is_file():
        raise TableError(f"the table {str(folder.parent)!r} lacks its file {name}")
    size = file.stat().st_size
    if size != expected["bytes"]:
        raise TableError(
            f"{name} of table {str(folder.parent)!r} is damaged: {size:,} bytes instead of {expected['bytes']:,}"
        )
    if verify and _checksum(file) != expected["blake2b"]:
        raise TableError(f"{name} of table {str(folder.parent)!r} is damaged: its checksum is wrong")


def _stored(folder: Path, manifest: dict[str, Any], mmap: bool, verify: bool, in_place: bool = False) -> Stored:
    require(not folder.is_symlink(), "its data lies elsewhere")
    files = manifest["files"]
    for name, expected in files.items():
        check_file(folder, name, expected, verify)

    def load(name: str, dtype: DTypeLike) -> NDArray[Any]:
        require(f"{name}.npy" in files, f"{name}.npy is not in the manifest")
        return read_array(folder / f"{name}.npy", np.dtype(dtype), mmap)

    make = _strings_in_place if in_place else _strings
    tagged = "tagset.npy" in files
    stored = Stored(
        schema=schema_of(manifest, lambda number: make(load, number)),
        arrays=SegmentArrays(**{name: load(name, _DTYPES[name]) for name in SegmentArrays._fields}),
        ids=_ids(load, "ids.npy" in files, verify),
        asked=PackedStrings(load("asked_start", np.int64), load("asked", np.uint8)),
        tagset=load("tagset", np.int32) if tagged else np.empty(0, np.int32),
        tagsets=_tagsets(folder) if tagged else [NO_TAGS],
        next_sequence=_count(manifest["next_sequence"]),
        options=manifest["options"],
        extras={found[1]: read_array(folder / name, None, mmap) for name in files if (found := _EXTRA.match(name))},
    )
    require(manifest["slots"] == len(stored.ids) == stored.slots, "ids and slots disagree")
    require(len(stored.asked) == stored.slots, "conditions and slots disagree")
    require(len(stored.tagset) == (stored.slots if tagged else 0), "tags and slots disagree")
    if verify:
        _check_stored(stored)
    return stored


def _check_stored(stored: Stored) -> None:
    """Every invariant that kernels and lists rely on."""
    check_arrays(stored.arrays, len(stored.schema))
    check_content(stored.arrays, stored.schema)
    stored.asked.check("conditions")
    numbers = stored.tagset
    require(not len(numbers) or 0 <= numbers.min() <= numbers.max() < len(stored.tagsets), "a set of tags is unknown")


def read_array(file: Path, dtype: np.dtype[Any] | None, mmap: bool) -> NDArray[Any]:
    """A `.npy` whose size must be exactly what its header says: of one dimension and this type, or (None) an extra."""
    with file.open("rb") as opened:
        require(np.lib.format.read_magic(opened) == (1, 0), f"{file.name} is of another format")
        shape, fortran, found = np.lib.format.read_array_header_1_0(opened)
        if dtype is None:
            fits = (
                found.kind in _EXTRA_KINDS and found.isnative and 1 <= len(shape) <= _EXTRA_DIMENSIONS and not fortran
            )
        else:
            fits = found == dtype and len(shape) == 1
        require(fits, f"{file.name} has the wrong type or shape")
        start, count = opened.tell(), prod(shape)
        require(start + count * found.itemsize == file.stat().st_size, f"{file.name} has the wrong size")
        if mmap and count:  # nothing cannot be mapped
            return frozen(np.memmap(opened, found, "r", start, shape).view(np.ndarray))
        return frozen(np.fromfile(opened, found, count).reshape(shape))


def _count(value: Any) -> int:
    require(type(value) is int and 0 <= value <= MAX_SEQUENCE, f"a count is {str(value)[:50]}")
    return int(value)


def _ids(load: Any, integers: bool, verify: bool) -> I64 | PackedStrings:
    if integers:
        ids: I64 = load("ids", np.int64)
        return ids
    texts = PackedStrings(load("ids_start", np.int64), load("ids_bytes", np.uint8))
    if verify:
        texts.check("ids")
        lengths = np.diff(texts.start)
        for slot in {int(lengths.argmin()), int(lengths.argmax())} if len(texts) else ():
            checked_id(texts.joined[texts.start[slot] : texts.start[slot + 1]].tobytes().decode())
    return texts


def _tagsets(folder: Path) -> list[Tags]:
    known = [checked_tags(dict(tags)) for tags in json.loads((folder / "tags.json").read_bytes())]
    require(known and known[0] == NO_TAGS, "the first set of tags is not the empty one")
    return known


def check_content(arrays: SegmentArrays, schema: Schema) -> None:
    """What `check_arrays` cannot see: bounds lie in the domain of their type, and on or beside a string constant."""
    sequence = arrays.sequence
    require(
        not len(sequence) or 0 <= sequence.min() <= sequence.max() < MAX_SEQUENCE, "a sequence number is impossible"
    )
    low, high = schema.domains
    of = np.repeat(arrays.attr, np.diff(arrays.interval_start))
    inside = (arrays.lo >= low[of]) & (arrays.hi <= high[of])
    untyped = (arrays.lo == INT64_MIN) & (arrays.hi == INT64_MAX)  # IS NOT NULL, asked before the type was known
    require((inside | untyped).all(), "a bound lies outside its type")
    for number, strings in schema.strings.items():
        mine = np.flatnonzero(of == number)
        require(strings.has_bounds(arrays.lo[mine], arrays.hi[mine]), "a bound on strings is at no constant")


def _strings(load: Any, number: int) -> StringKeys:
    parts = [load(f"strings_{number}_{part}", dtype) for part, dtype in (("start", np.int64), ("bytes", np.uint8))]
    return restored_strings(unpacked(*parts), load(f"strings_{number}_keys", np.int64).tolist())


def _strings_in_place(load: Any, number: int) -> Any:
    start, joined = load(f"strings_{number}_start", np.int64), load(f"strings_{number}_bytes", np.uint8)
    return MappedStrings(start, joined, load(f"strings_{number}_keys", np.int64))


def restored_strings(constants: list[bytes], keys: list[int]) -> StringKeys:
    """String keys from outside, checked."""
    strings = StringKeys.from_items(constants, keys)
    strings.check()
    return strings


def schema_of(record: dict[str, Any], strings: Any) -> Schema:
    """The inverse of `schema_record`; `strings(number)` gives the keys of an attribute's constants."""
    schema = Schema(record["zone"], strict=bool(record["strict"]), nan_is_null=bool(record["nan_is_null"]))
    for number, entry in enumerate(record["attributes"]):
        name, type_ = entry["name"], entry["type"]
        check_name(name)
        require(name not in schema.by_name, f"the attribute {name!r} is listed twice")
        known = attribute_type(type_) if type_ is not None else None
        if known is not None and known.kind == NUMBER and entry["keyed"]:
            known = WIDE_NUMBER
        schema.put(Attribute(number, name, known, bool(entry["declared"]), str(entry["origin"])[:1000]))
        if known is not None and known.keyed:
            keys = strings(number)
            if known.kind == NUMBER and isinstance(keys, StringKeys):
                check_numbers(keys.constants())
            schema.strings[number] = keys
    return schema
