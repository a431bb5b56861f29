"""Ids that were strings became integers on their way through a CSV file, and a book of strings refused them."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

import earmark
from earmark.cli.book import book


def said(*arguments: object) -> str:
    done = CliRunner().invoke(book, [str(one) for one in arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_ids_through_csv(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add_many([(str(n), f"age > {n}") for n in range(3)])
    assert "load them with --string-ids" in said("export", tmp_path / "b", file)
    assert "0 more, 3 in all" in said("load", tmp_path / "b", file, "--replace")
    expected = {"b": ["0", "1", "2"], "c": ["0", "1", "2"], "d": [0, 1, 2]}
    for name, options in (("c", ["--string-ids"]), ("d", [])):
        said("create", tmp_path / name)
        said("load", tmp_path / name, file, *options)
    for name, ids in expected.items():
        assert earmark.open(tmp_path / name, readonly=True, follow=False).ids() == ids
