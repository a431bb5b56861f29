"""A table as a folder: one `.npy` a column, so that it opens by mapping; a manifest with sizes and checksums.

    ads.earmark/
      manifest.json      format, version, counts, attributes, and for every file its size and checksum
      data-3f08c1…/      the files, in a folder that the manifest names
        lo.npy hi.npy …  the arrays of arrays.py
        asked*.npy       what was asked        ids*.npy     strings_N_*.npy   constants of string attribute N
        tags.json        distinct sets of tags (when there are tags)

A save writes a new data folder, flushes it, and then replaces the manifest in one step: whoever opens the table finds
the old one or the new one whole, also when the save is killed (the next save removes what was left). One save at a
time: the folder is locked.

Whatever is read is treated as hostile: no pickles, names from a fixed pattern, no links, sizes and checksums first,
then every invariant that kernels rely on. A truncated, changed, foreign or newer folder is a TableError.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from earmark.errors import EarmarkError, TableError, require
from earmark.model.arrays import I64, U8, TableArrays, frozen
from earmark.model.attribute import INT64_MAX, INT64_MIN, STRING, Attribute, Schema, attribute_type, check_name
from earmark.model.strings import StringKeys
from earmark.model.subscription import checked_id, checked_tags
from earmark.model.table import NO_TAGS, Block, Id, Table, Tags

FORMAT, VERSION = "earmark-table", 1
MANIFEST = "manifest.json"
MAX_SEQUENCE = 2**62
_MAX_MANIFEST = 256 << 20
_ATTEMPTS = 5  # at opening a table that is being replaced
_NAME = re.compile(r"[a-z0-9_]{1,60}\.(npy|json)\Z")
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


def save_table(table: Table, folder: str | os.PathLike[str], options: dict[str, Any]) -> None:
    """Write the living subscriptions to a folder; an existing table there is replaced, in one step at the end."""
    path = _path(folder)
    try:
        target = path.resolve()
        _refuse_foreign(target)
        made = not target.exists()
        target.mkdir(parents=True, exist_ok=True)
        try:
            with _locked(target):
                _replace(target, table.compacted(), options)
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


def _refuse_foreign(target: Path) -> None:
    if not target.exists():
        return
    try:
        if target.is_dir():
            if all(_is_ours(entry.name) for entry in target.iterdir()):
                return  # empty, or what a killed save left
            if (target / MANIFEST).is_file() and _read_json(target / MANIFEST).get("format") == FORMAT:
                return
    except (ValueError, RecursionError, AttributeError):
        pass
    raise TableError(f"{str(target)!r} exists and is not an earmark table; it is not overwritten")


def _is_ours(name: str) -> bool:
    return bool(_DATA.match(name) or _UNFINISHED.match(name))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(target: Path, table: Table, options: dict[str, Any]) -> None:
    """Write a data folder and point the manifest at it. Called with the folder locked."""
    token = secrets.token_hex(8)
    data, unfinished = target / f"data-{token}", target / f".manifest-{token}"
    try:
        data.mkdir()
        files = {name: _write(data / name, content) for name, content in _contents(table).items()}
        _flush(data)
        _write(unfinished, _manifest(table, data.name, files, options))
        unfinished.replace(target / MANIFEST)
    except BaseException:
        if not _points_at(target, data.name):  # else it was interrupted when all was done
            shutil.rmtree(data, ignore_errors=True)
            unfinished.unlink(missing_ok=True)
        raise
    _flush(target)
    with suppress(OSError):  # it need not be readable
        _flush(target.parent)
    for entry in list(target.iterdir()):
        if entry != data and _DATA.match(entry.name):
            shutil.rmtree(entry, ignore_errors=True)
        elif _UNFINISHED.match(entry.name):
            entry.unlink(missing_ok=True)


def _points_at(target: Path, data: str) -> bool:
    try:
        return bool(_read_json(target / MANIFEST)["data"] == data)
    except (OSError, *DAMAGE):
        return False


def _contents(table: Table) -> dict[str, Any]:
    view = table.view()
    found: dict[str, Any] = {f"{name}.npy": array for name, array in view.arrays._asdict().items()}
    found["asked_start.npy"], found["asked.npy"] = view.asked_start, view.asked_bytes
    if table.ids and isinstance(table.ids[0], int):
        found["ids.npy"] = np.array(table.ids, np.int64)
    else:
        found["ids_start.npy"], found["ids_bytes.npy"] = packed([str(one).encode() for one in table.ids])
    for number, strings in table.schema.strings.items():
        constants, keys = strings.items()
        start, joined = packed(constants)
        for part, array in (("start", start), ("bytes", joined), ("keys", keys)):
            found[f"strings_{number}_{part}.npy"] = array
    if len(view.tagset):
        found["tagset.npy"] = view.tagset
        found["tags.json"] = view.tagsets
    return found


def packed(texts: Sequence[bytes]) -> tuple[I64, U8]:
    """Many byte strings as offsets and one run of bytes."""
    start = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(t) for t in texts], out=start[1:])
    return start, np.frombuffer(b"".join(texts), np.uint8)


def unpacked(start: I64, joined: U8) -> list[bytes]:
    """The inverse of `packed`; raises AssertionError when the offsets are not right."""
    ends, whole = _ends(start, joined), joined.tobytes()
    return [whole[a:b] for a, b in pairwise(ends)]


def _ends(start: I64, joined: U8) -> list[int]:
    require(len(start) and start[0] == 0 and start[-1] == len(joined), "the offsets of texts do not fit them")
    require((start[:-1] <= start[1:]).all(), "the offsets of texts descend")
    ends: list[int] = start.tolist()
    return ends


def _texts(start: I64, joined: U8) -> list[str]:
    if not (joined < 128).all():
        return [part.decode() for part in unpacked(start, joined)]
    ends = _ends(start, joined)
    whole = joined.tobytes().decode("ascii")  # one byte a character: cut the text itself, which is quicker
    return [whole[a:b] for a, b in pairwise(ends)]


def _write(path: Path, data: Any) -> dict[str, Any]:
    """Write one file, flushed to disk; its size and checksum."""
    head, body = b"", memoryview(b"")
    if isinstance(data, np.ndarray):
        header = io.BytesIO()
        array = np.ascontiguousarray(data)
        np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
        head, body = header.getvalue(), memoryview(array.view(np.uint8).data)
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


def _manifest(table: Table, data: str, files: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    body = {
        "format": FORMAT,
        "version": VERSION,
        "slots": table.slots,
        "generation": table.generation,
        "next_sequence": table.next_sequence,
        "options": options,
        **schema_record(table.schema),
        "data": data,
        "files": files,
    }
    return {**body, "blake2b": _record_checksum(body)}


def _record_checksum(body: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).hexdigest()


def schema_record(schema: Schema) -> dict[str, Any]:
    """Attributes and zone as JSON."""
    return {
        "zone": schema.zone_name,
        "attributes": [
            {
                "name": a.name,
                "type": str(a.type) if a.type else None,
                "declared": a.declared,
                "origin": a.origin,
            }
            for a in schema
        ],
    }


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- opening -------------------------------------------------------------------------------------------------


def open_table(folder: str | os.PathLike[str], mmap: bool = True) -> tuple[Table, dict[str, Any]]:
    """The table of a folder and the options it was saved with; with `mmap`, arrays stay on disk until touched."""
    path = _path(folder)
    for attempt in range(_ATTEMPTS):
        manifest = _guarded(path, _read_manifest)
        try:
            table: Table = _guarded(path, lambda p, m=manifest: _table(p / m["data"], m, mmap))
            return table, manifest["options"]
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


def _read_json(file: Path) -> Any:
    if file.stat().st_size > _MAX_MANIFEST:
        raise ValueError("it is too large")
    return json.loads(file.read_bytes())


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    if file.is_symlink() or not file.is_file():
        raise TableError(f"{str(path)!r} is not an earmark table: it has no {MANIFEST}")
    try:
        manifest = _read_json(file)
    except (ValueError, RecursionError):
        raise TableError(f"the manifest of {str(path)!r} is damaged: it is not JSON") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise TableError(f"{str(path)!r} is not an earmark table")
    version = manifest.get("version")
    if version != VERSION or isinstance(version, bool):
        raise TableError(f"{str(path)!r} has format version {version!r}; this earmark reads version {VERSION}")
    body = {name: value for name, value in manifest.items() if name != "blake2b"}
    if manifest.get("blake2b") != _record_checksum(body):
        raise TableError(f"the manifest of {str(path)!r} is damaged: its checksum is wrong")
    require(_DATA.match(manifest["data"]), "its data lies outside the folder")
    require(isinstance(manifest["options"], dict), "its options are not a mapping")
    return manifest


def _check_file(folder: Path, name: str, expected: dict[str, Any]) -> None:
    require(_NAME.match(name), f"it lists a file {name!r} that cannot belong to a table")
    file = folder / name
    if file.is_symlink() or not file.is_file():
        raise TableError(f"the table {str(folder.parent)!r} lacks its file {name}")
    size = file.stat().st_size
    if size != expected["bytes"]:
        raise TableError(
            f"{name} of table {str(folder.parent)!r} is damaged: {size:,} bytes instead of {expected['bytes']:,}"
        )
    if _checksum(file) != expected["blake2b"]:
        raise TableError(f"{name} of table {str(folder.parent)!r} is damaged: its checksum is wrong")


def _table(folder: Path, manifest: dict[str, Any], mmap: bool) -> Table:
    require(not folder.is_symlink(), "its data lies elsewhere")
    files = manifest["files"]
    for name, expected in files.items():
        _check_file(folder, name, expected)

    def load(name: str, dtype: DTypeLike) -> NDArray[Any]:
        require(f"{name}.npy" in files, f"{name}.npy is not in the manifest")
        return _read_array(folder / f"{name}.npy", np.dtype(dtype), mmap)

    schema = schema_of(manifest, lambda number: _strings(load, number))
    arrays = TableArrays(**{name: load(name, _DTYPES[name]) for name in TableArrays._fields})
    ids = _ids(load, "ids.npy" in files)
    tags = _tags(folder, load("tagset", np.int32)) if "tagset.npy" in files else None
    require(manifest["slots"] == len(ids) == len(arrays.sequence), "ids and slots disagree")
    require(tags is None or len(tags) == len(ids), "tags and slots disagree")
    table = Table.restored(
        schema,
        Block(arrays, ids, [], tags),
        load("asked_start", np.int64),
        load("asked", np.uint8),
        generation=_count(manifest["generation"]),
        next_sequence=_count(manifest["next_sequence"]),
    )
    require(len(table) == len(ids), "an id is used twice")
    check_content(arrays, schema)
    return table


def _read_array(file: Path, dtype: np.dtype[Any], mmap: bool) -> NDArray[Any]:
    """A one-dimensional `.npy`, whose size must be exactly what its header says."""
    with file.open("rb") as opened:
        require(np.lib.format.read_magic(opened) == (1, 0), f"{file.name} is of another format")
        shape, _, found = np.lib.format.read_array_header_1_0(opened)
        require(found == dtype and len(shape) == 1, f"{file.name} has the wrong type or shape")
        start, (count,) = opened.tell(), shape
        require(start + count * dtype.itemsize == file.stat().st_size, f"{file.name} has the wrong size")
        if mmap and count:  # nothing cannot be mapped
            return frozen(np.memmap(opened, dtype, "r", start, shape).view(np.ndarray))
        return frozen(np.fromfile(opened, dtype, count))


def _count(value: Any) -> int:
    require(type(value) is int and 0 <= value <= MAX_SEQUENCE, f"a count is {str(value)[:50]}")
    return int(value)


def _ids(load: Any, integers: bool) -> list[Id]:
    if integers:
        ids: list[Id] = load("ids", np.int64).tolist()
    else:
        texts = _texts(load("ids_start", np.int64), load("ids_bytes", np.uint8))
        for one in (min(texts, key=len), max(texts, key=len)) if texts else ():
            checked_id(one)  # the rest follows: texts from UTF-8 fail by their length only
        ids = list(texts)
    return ids


def _tags(folder: Path, numbers: NDArray[np.int32]) -> list[Tags]:
    known = [checked_tags(dict(tags)) for tags in json.loads((folder / "tags.json").read_bytes())]
    require(known and known[0] == NO_TAGS, "the first set of tags is not the empty one")
    require(not len(numbers) or 0 <= numbers.min() <= numbers.max() < len(known), "a set of tags is unknown")
    return [known[n] for n in numbers.tolist()]


def check_content(arrays: TableArrays, schema: Schema) -> None:
    """What `check_arrays` cannot see: bounds lie in the domain of their type, and on or beside a string constant."""
    sequence = arrays.sequence
    require(
        not len(sequence) or 0 <= sequence.min() <= sequence.max() < MAX_SEQUENCE, "a sequence number is impossible"
    )
    types = [attribute.type for attribute in schema]
    low = np.array([t.low if t else INT64_MIN for t in types], np.int64)
    high = np.array([t.high if t else INT64_MAX for t in types], np.int64)
    of = np.repeat(arrays.attr, np.diff(arrays.interval_start))
    require((arrays.lo >= low[of]).all() and (arrays.hi <= high[of]).all(), "a bound lies outside its type")
    for number, strings in schema.strings.items():
        mine = np.flatnonzero(of == number)
        require(strings.has_bounds(arrays.lo[mine], arrays.hi[mine]), "a bound on strings is at no constant")


def _strings(load: Any, number: int) -> StringKeys:
    parts = [load(f"strings_{number}_{part}", dtype) for part, dtype in (("start", np.int64), ("bytes", np.uint8))]
    return restored_strings(unpacked(*parts), load(f"strings_{number}_keys", np.int64).tolist())


def restored_strings(constants: list[bytes], keys: list[int]) -> StringKeys:
    """String keys from outside, checked."""
    strings = StringKeys.from_items(constants, keys)
    strings.check()
    return strings


def schema_of(record: dict[str, Any], strings: Any) -> Schema:
    """The inverse of `schema_record`; `strings(number)` gives the keys of a string attribute."""
    schema = Schema(record["zone"])
    for number, entry in enumerate(record["attributes"]):
        name, type_ = entry["name"], entry["type"]
        check_name(name)
        require(name not in schema.by_name, f"the attribute {name!r} is listed twice")
        known = attribute_type(type_) if type_ is not None else None
        schema.put(Attribute(number, name, known, bool(entry["declared"]), str(entry["origin"])[:1000]))
        if known is not None and known.kind == STRING:
            schema.strings[number] = strings(number)
    return schema
