"""A process was killed between the commit of `erase` and the new files: the text stayed in segments and keys for good.

Opening made a dead slot of it, and the checkpoint that should have removed it wrote the slot and its constants again.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import earmark
from earmark.book import care
from earmark.durable import Book

SECRETS = (b"Gertrude", b"secret_attribute", b"hidden constant", b"tag-Value-77")


def secrets_in(folder: Path) -> list[bytes]:
    content = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    return [secret for secret in SECRETS if secret in content]


def attributes_of(m: Book) -> dict[str, object]:
    """What a book says of its attributes, except who gave them their types: that is named by what was read."""
    return {name: (about.type, about.declared, about.uses) for name, about in m.attributes.items()}


def test_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, left = tmp_path / "b", tmp_path / "left"
    with earmark.open(folder, index="scan", attributes={"unused": "date"}) as m:
        m.add_many([(f"s{i}", f"city = 'c{i}'") for i in range(20)])
        m.add("gone", "secret_attribute = 'Gertrude' AND city = 'hidden constant'", tags={"Mrs-Tag": "tag-Value-77"})
        m.checkpoint()
        m.add("late", "city = 'd'")
        with monkeypatch.context() as patch:
            patch.setattr(Book, "_finish_erasing", lambda self: shutil.copytree(folder, left))
            m.erase("gone")
        ids, attributes = m.ids(), attributes_of(m)
    assert set(secrets_in(left)) >= {b"Gertrude"}
    for _ in range(2):
        with earmark.open(left) as again:
            assert secrets_in(left) == []
            assert (again.ids(), attributes_of(again)) == (ids, attributes)
            assert not [secret for secret in SECRETS if secret.decode() in str(again.attributes)]
            assert again.match({"city": "d"}) == ["late"]
            again.check()
    assert care.check(left) == []
    assert secrets_in(left) == []
