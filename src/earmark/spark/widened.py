"""What if the events have doubles where every condition so far took the attribute for an integer?

A Matcher then makes the attribute a float, once, from what was asked (model/widen.py). Workers cannot change a version,
which is shared and immutable, so the driver derives a form of it for such events: the same subscriptions, scores and
order, under the wider type, in a folder beside the versions:

    derived/00000003-<attributes, hashed>/    version.json and one table with its index, like a full version

It appears by one rename, so whoever comes second finds it whole; when it is missing it is made again. Declaring the
attribute (`attributes={"age": "float"}`) when publishing saves all that.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from earmark.errors import AttributeTypeError
from earmark.model.files import write_file
from earmark.model.stored import Stored, Texts, stored_of, table_of
from earmark.model.widen import widen
from earmark.spark import contents
from earmark.spark.merge import join, of_kind
from earmark.spark.shards import write_shards
from earmark.spark.versions import RECORD, derived_folder, read_sealed, seal

ORIGIN = "a column of events with fractions"


def widened(stored: Stored, names: Sequence[str], origin: str) -> Stored:
    """The same subscriptions with learned integer attributes as floats."""
    table = table_of(stored)
    for name in names:
        widen(table, table.schema.by_name[name], origin)
    return of_kind(stored_of(table), not isinstance(stored.ids, Texts))


def derive(root: Path, record: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """See that there is a form of a version with these attributes as floats; the key of its folder.

    None when bounds beyond 2^53 stand in the way; then fractional values are an error, as for a Matcher.
    """
    key = hashlib.blake2b(json.dumps(sorted(names)).encode(), digest_size=8).hexdigest()
    target = derived_folder(root, record["version"], key)
    if (target / RECORD).is_file():
        return key
    loaded = contents.load(root, record)
    target.parent.mkdir(exist_ok=True)
    building = target.parent / f".building-{secrets.token_hex(8)}"
    try:
        building.mkdir()
        told = _written(building, root, loaded, names)
        kept = {name: record[name] for name in ("version", "parent", "created", "rejected", "subscriptions")}
        write_file(
            building / RECORD, seal({**told, **kept, "base": record["version"], "derived_from": record["blake2b"]})
        )
        building.rename(target)
    except AttributeTypeError:
        return None
    except OSError:
        if not (target / RECORD).is_file():  # else someone else was quicker
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return key


def _written(folder: Path, root: Path, loaded: contents.Loaded, names: Sequence[str]) -> dict[str, Any]:
    """Write the wider form of a version: as many shards as it has tables, or one table."""
    index = loaded.record["index"]
    if not contents.is_sharded(contents.base_of(root, loaded.record)):
        return contents.write_full(folder, widened(contents.fold(loaded), names, ORIGIN), index)
    schema = widened(join([], loaded.schema), names, ORIGIN).schema
    pieces = (widened(join([one], loaded.schema), names, ORIGIN) for one in contents.living(loaded))
    following, integers = loaded.record["next_sequence"], loaded.record["integer_ids"]
    return write_shards(folder, pieces, schema, index, following, integers)


def read_derived(root: Path, record: Mapping[str, Any], key: str) -> tuple[Path, dict[str, Any]]:
    """The folder and the record of what was derived from a version."""
    folder = derived_folder(root, record["version"], key)
    found = read_sealed(folder / RECORD, "version")
    if found["derived_from"] != record["blake2b"]:
        raise AssertionError(f"{str(folder)!r} was derived from another version {record['version']}")
    return folder, found
