"""`publish(df, "s3://bucket/x")` wrote to ./s3:/bucket/x, and `open` did not know file: addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from earmark import EarmarkError, Matcher
from earmark.book.folder import root_of
from earmark.spark.hygiene.auditing import working_folder


def test_one_function_for_all_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "a book"
    for given in (folder, str(folder), folder.as_uri(), f"file:{folder}", f"file://localhost{folder}", "a book"):
        assert root_of(given) == folder
    assert root_of(bytes(folder)) == folder
    for given in (
        "s3://bucket/x",
        "hdfs://host/x",
        "file://host/x",
        "dbfs://x",
        "S3A://x",
        Path("s3://b/x"),
        "dbfs:/x",
    ):
        with pytest.raises(EarmarkError, match=r"the book '.+' is not a path: expected a folder"):
            root_of(given)
    assert root_of("./s3:/x") == tmp_path / "s3:" / "x"
    with pytest.raises(EarmarkError, match="the sink 's3://b' is not a path"):
        root_of("s3://b", "the sink")
    with pytest.raises(EarmarkError, match="expected the path of a folder for the book, got 7"):
        root_of(7)


def test_matchers_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    matcher = Matcher()
    matcher.add("x", "a = 1")
    with pytest.raises(EarmarkError, match="is not a path"):
        matcher.save("s3://bucket/x")
    assert not list(tmp_path.iterdir())
    matcher.save((tmp_path / "b").as_uri())
    assert Matcher.load((tmp_path / "b").as_uri()).match({"a": 1}) == ["x"]


def test_working_folders_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`working="s3://bucket/x"` was looked for below the current folder, and a file: address was not understood."""
    monkeypatch.chdir(tmp_path)
    with working_folder(tmp_path.as_uri(), "audit") as folder:
        assert folder.parent == tmp_path and folder.is_dir()
    for given in ("s3://bucket/x", "dbfs:/x"):
        with pytest.raises(EarmarkError, match=r"the working folder .* is not a path"), working_folder(given, "audit"):
            pass
