"""A table as a folder: one `.npy` a column, so that it opens by mapping; a manifest with sizes and checksums.

    ads.earmark/
      manifest.json    format, version, counts, attributes, and for every file its size and checksum
      lo.npy hi.npy …  the arrays of arrays.py
      asked*.npy       what was asked        ids*.npy     strings_N_*.npy   constants of string attribute N
      tags.json        distinct sets of tags (when there are tags)

Files are written to a folder beside the target, flushed, and moved into place. Whatever is read is treated as
hostile: no pickles, names from a fixed pattern, sizes and checksums first, then every invariant that kernels rely
on. A truncated, changed, foreign or newer folder is a TableError.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError, TableError
from earmark.model.arrays import I64, U8, TableArrays, frozen
from earmark.model.attribute import STRING, Attribute, Schema, attribute_type
from earmark.model.strings import StringKeys
from earmark.model.subscription import check_new_ids, checked_id, checked_tags
from earmark.model.table import Block, Id, Table

FORMAT, VERSION = "earmark-table", 1
MANIFEST = "manifest.json"
_MAX_MANIFEST = 256 << 20
_NAME = re.compile(r"[a-z0-9_]{1,60}\.(npy|json)\Z")
_DTYPES = {
    **dict.fromkeys(("clause_start", "constraint_start", "attr", "interval_start", "tagset"), np.int32),
    **dict.fromkeys(("lo", "hi", "sequence", "asked_start", "ids", "ids_start"), np.int64),
    **dict.fromkeys(("weight", "score"), np.float64),
    **dict.fromkeys(("accepts_null", "asked", "ids_bytes"), np.uint8),
}


# --- saving --------------------------------------------------------------------------------------------------


def save_table(table: Table, folder: str | os.PathLike[str], options: dict[str, Any]) -> None:
    """Write the living subscriptions to a folder; an existing table there is replaced."""
    target = Path(folder)
    _refuse_foreign(target)
    table = table.compacted()
    aside = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        files = {name: _write(aside / name, data) for name, data in _contents(table).items()}
        _write(aside / MANIFEST, _manifest(table, files, options))
        _flush(aside)
        _move(aside, target)
    except OSError as problem:
        raise TableError(f"the table cannot be saved to {str(folder)!r}: {problem.strerror or problem}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _refuse_foreign(target: Path) -> None:
    if target.exists() and not (target / MANIFEST).is_file() and (not target.is_dir() or any(target.iterdir())):
        raise TableError(f"{str(target)!r} exists and is not an earmark table; it is not overwritten")


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
    assert len(start) and start[0] == 0 and start[-1] == len(joined), "the offsets of texts do not fit them"
    assert bool((start[:-1] <= start[1:]).all()), "the offsets of texts descend"
    whole, ends = joined.tobytes(), start.tolist()
    return [whole[a:b] for a, b in zip(ends, ends[1:], strict=False)]


def _write(path: Path, data: Any) -> dict[str, Any]:
    with path.open("xb") as file:
        if isinstance(data, np.ndarray):
            np.lib.format.write_array(file, np.ascontiguousarray(data), allow_pickle=False)
        else:
            file.write(json.dumps(data, ensure_ascii=True).encode())
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": path.stat().st_size, "blake2b": _checksum(path)}


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _manifest(table: Table, files: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    body = {
        "format": FORMAT,
        "version": VERSION,
        "slots": table.slots,
        "generation": table.generation,
        "next_sequence": table.next_sequence,
        "options": options,
        **schema_record(table.schema),
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


def _move(aside: Path, target: Path) -> None:
    if not target.exists():
        aside.rename(target)
    else:
        old = target.with_name(f".{target.name}.{os.getpid()}.old")
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
        aside.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    _flush(target.resolve().parent)


# --- opening -------------------------------------------------------------------------------------------------


def open_table(folder: str | os.PathLike[str], mmap: bool = True) -> tuple[Table, dict[str, Any]]:
    """The table of a folder and the options it was saved with; with `mmap`, arrays stay on disk until touched."""
    path = Path(folder)
    try:
        manifest = _read_manifest(path)
        for name, expected in manifest["files"].items():
            _check_file(path, name, expected)
        return _table(path, manifest, mmap), dict(manifest["options"])
    except TableError:
        raise
    except OSError as problem:
        raise TableError(f"the table {str(folder)!r} cannot be read: {problem.strerror or problem}") from None
    except (EarmarkError, AssertionError, ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
        raise TableError(f"the table {str(folder)!r} is damaged: {str(problem) or type(problem).__name__}") from None


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    if not file.is_file():
        raise TableError(f"{str(path)!r} is not an earmark table: it has no {MANIFEST}")
    if file.stat().st_size > _MAX_MANIFEST:
        raise TableError(f"the manifest of {str(path)!r} is too large to be one")
    try:
        manifest = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        raise TableError(f"the manifest of {str(path)!r} is damaged: it is not JSON") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise TableError(f"{str(path)!r} is not an earmark table")
    if manifest.get("version") != VERSION:
        raise TableError(
            f"{str(path)!r} has format version {manifest.get('version')}; this earmark reads version {VERSION}"
        )
    claimed = manifest.pop("blake2b", None)
    if claimed != _record_checksum(manifest):
        raise TableError(f"the manifest of {str(path)!r} is damaged: its checksum is wrong")
    return manifest


def _check_file(path: Path, name: str, expected: dict[str, Any]) -> None:
    if not _NAME.match(name):
        raise TableError(f"the manifest of {str(path)!r} names a file {name!r} that cannot belong to a table")
    file = path / name
    if file.is_symlink() or not file.is_file():
        raise TableError(f"the table {str(path)!r} lacks its file {name}")
    if file.stat().st_size != expected["bytes"]:
        raise TableError(
            f"{name} of table {str(path)!r} is damaged: {file.stat().st_size:,} bytes instead of {expected['bytes']:,}"
        )
    if _checksum(file) != expected["blake2b"]:
        raise TableError(f"{name} of table {str(path)!r} is damaged: its checksum is wrong")


def _table(path: Path, manifest: dict[str, Any], mmap: bool) -> Table:
    def load(name: str, dtype: Any) -> NDArray[Any]:
        assert f"{name}.npy" in manifest["files"], f"{name}.npy is not in the manifest"
        file = path / f"{name}.npy"
        small = file.stat().st_size <= 4096  # an empty array cannot be mapped
        array = np.load(file, mmap_mode="r" if mmap and not small else None, allow_pickle=False)
        assert array.dtype == dtype and array.ndim == 1, f"{name}.npy has the wrong type or shape"
        return frozen(array.view(np.ndarray))

    schema = schema_of(manifest, lambda number: _strings(load, number))
    arrays = TableArrays(**{name: load(name, _DTYPES[name]) for name in TableArrays._fields})
    ids: list[Id] = (
        load("ids", np.int64).tolist()
        if "ids.npy" in manifest["files"]
        else [one.decode() for one in unpacked(load("ids_start", np.int64), load("ids_bytes", np.uint8))]
    )
    tagsets = None
    if "tagset.npy" in manifest["files"]:
        known = [checked_tags(dict(t)) for t in json.loads((path / "tags.json").read_bytes())]
        numbers = load("tagset", np.int32)
        assert not len(numbers) or 0 <= numbers.min() <= numbers.max() < len(known), "a set of tags is unknown"
        tagsets = [known[n] for n in numbers.tolist()]
    check_new_ids([checked_id(one) for one in ids], {}, None)
    return Table.restored(
        schema,
        Block(arrays, ids, [], tagsets),
        load("asked_start", np.int64),
        load("asked", np.uint8),
        generation=int(manifest["generation"]),
        next_sequence=int(manifest["next_sequence"]),
    )


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
    schema = Schema(str(record["zone"]))
    for number, entry in enumerate(record["attributes"]):
        type_ = attribute_type(entry["type"]) if entry["type"] is not None else None
        assert entry["name"] not in schema.by_name, "an attribute is listed twice"
        schema.put(Attribute(number, str(entry["name"]), type_, bool(entry["declared"]), str(entry["origin"])))
        if type_ is not None and type_.kind == STRING:
            schema.strings[number] = strings(number)
    return schema
