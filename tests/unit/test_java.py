"""Finding a Java for Spark: what versions look like, which one is taken, and the sentence when there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from earmark.errors import EarmarkError
from earmark.spark import java


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2" 2019-01-15', 11),
        ("no Java runtime present, requesting install.", None),
        ("", None),
    ],
)
def test_version(text: str, version: int | None) -> None:
    assert java.java_version(text) == version


def fake_java(home: Path, version: str) -> Path:
    """A `java` that only says its version, and knows the module flag from version 9 on."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    refuse = 'case "$1" in --add-modules*) exit 1;; esac\n' if version.startswith("1.") else ""
    program.write_text(
        f"#!/bin/sh\n{refuse}echo '    java.home = {home}' >&2\necho 'openjdk version \"{version}\"' >&2\n"
    )
    program.chmod(0o755)
    return home


def test_java_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, on_path = fake_java(tmp_path / "named", "17.0.1"), fake_java(tmp_path / "on path", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(named))
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    assert java.ensure_java() == named


@pytest.mark.parametrize("old", ["1.8.0_402", "11.0.2"])
def test_too_old_java_home_gives_way_to_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", old)))
    new = fake_java(tmp_path / "new", "21.0.1")
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert java.ensure_java() == new


def test_no_java_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_402")))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(java, "_packaged_java", lambda: None)
    with pytest.raises(EarmarkError, match=r"Java 17 or newer.*is version 8.*pip install"):
        java.ensure_java()


def test_made_up_home_drops_only_the_vector_flag(tmp_path: Path) -> None:
    echo = tmp_path / "it's java"
    echo.write_text('#!/bin/sh\nfor a do echo "<$a>"; done\n')
    echo.chmod(0o755)
    home = java.make_home(echo, tmp_path)
    assert home is not None
    assert (home / "bin" / "java").stat().st_mode & 0o777 == 0o700
    done = subprocess.run([home / "bin" / "java", "-a b", java.VECTOR_FLAG, "", "$c"], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["<-a b>", "<>", "<$c>"]
