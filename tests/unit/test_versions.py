"""The other Pythons that earmark supports, where the machine has them, each with its own copy of the core libraries.

The environments are made once, inside the one that runs the tests (`.venv/versions`), and kept until
requirements/core.txt changes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements" / "core.txt"
KEPT = Path(sys.prefix if sys.prefix != sys.base_prefix else tempfile.gettempdir()) / "versions"
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
SECONDS = 240

SMOKE = """
import importlib, pkgutil, sys, warnings
warnings.simplefilter("error", DeprecationWarning)
warnings.simplefilter("error", SyntaxWarning)
import numba, pyarrow as pa, sqlglot
import earmark

for module in pkgutil.walk_packages(earmark.__path__, "earmark."):
    if not module.name.startswith(("earmark.spark", "earmark.overlay")) and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
warnings.resetwarnings()

m = earmark.Matcher(attributes={"d": "date", "m": "decimal(9, 2)"}, zone="Europe/Paris")
m.add("ad-17", "credit_score > 650 AND visits > 10 AND age BETWEEN 22 AND 36",
      weights={"credit_score": 0.4, "age": 0.4}, tags={"tenant": "acme"})
m.add("texts", "city LIKE 'O%' OR NOT (city IN ('x', 'y')) AND ok")
m.add("moments", "d >= '2024-02-29' AND m != 1.25 AND t < TIMESTAMP '2024-03-31 02:30:00'")
m.add_many(pa.table({"id": ["r"], "age_lo": [20], "age_hi": [40]}))
event = {"credit_score": 732, "visits": 17, "age": 27, "city": "Oslo"}
assert m.match(event) == ["ad-17", "texts", "r"], m.match(event)
assert [one.id for one in m.top_k(event, 2)] == ["ad-17", "texts"], m.top_k(event, 2)
assert m.top_k({"age": 30}, 9, mode="relaxed")[0].id == "r"
assert m.near_misses({**event, "age": 50})[0].id == "ad-17"
assert m.match_many(pa.table({"age": [27, 99]}))["subscription"].to_pylist() == ["r"]
assert m.verify([event, {}]).ok
assert "ad-17" in str(m.explain("ad-17", event))
m.match({"age": 27.5})
m.save(sys.argv[1])
again = earmark.Matcher.load(sys.argv[1])
other = earmark.Matcher(zone="Europe/Paris")
other.add_many(again.to_arrow())
assert other.match(event) == again.match(event) == m.match(event)
print("fine with", "%d.%d" % sys.version_info[:2])
"""


def starts(command: str, version: str) -> bool:
    """Whether it is that Python; a shim may be there and not start."""
    try:
        asked = [command, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        return subprocess.run(asked, capture_output=True, text=True, timeout=30).stdout.strip() == version
    except (OSError, subprocess.TimeoutExpired):
        return False


def interpreter(version: str) -> str | None:
    """A Python of that version: on the path, or among those that pyenv or uv keep."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    kept = Path.home() / ".local" / "share" / "uv" / "python"
    found = [*pyenv.glob(f"{version}.*/bin/python"), *kept.glob(f"cpython-{version}.*/bin/python{version}")]
    candidates = [shutil.which(f"python{version}"), *map(str, sorted(found))]
    return next((one for one in candidates if one and starts(one, version)), None)


def environment(version: str) -> Path:
    """The Python of an environment with the core libraries, made when there is none; skips when that cannot be."""
    home = KEPT / version
    python, stamp = home / "bin" / "python", home / "requirements.txt"
    wanted = REQUIREMENTS.read_text()
    if stamp.exists() and stamp.read_text() == wanted and starts(str(python), version):
        return python
    base = interpreter(version)
    if base is None:
        pytest.skip(f"no Python {version} on this machine")
    shutil.rmtree(home, ignore_errors=True)
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv:
        made = [[uv, "venv", "--quiet", "--python", base, str(home)]]
        made += [[uv, "pip", "install", "--quiet", "--python", str(python)]]
    else:
        made = [[base, "-m", "venv", str(home)], [str(python), "-m", "pip", "install", "--quiet"]]
    made[1] += ["--require-hashes", "-r", str(REQUIREMENTS)]
    for command in made:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            pytest.skip(f"the libraries for Python {version} did not arrive in {SECONDS} s")
        if done.returncode:
            shutil.rmtree(home, ignore_errors=True)
            pytest.skip(f"no libraries for Python {version} here: {done.stderr.strip()[-300:]}")
    stamp.write_text(wanted)
    return python


def smoke(version: str, jit: bool) -> None:
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        pytest.skip(f"the other tests run with Python {version}")
    python = environment(version)
    with tempfile.TemporaryDirectory() as folder:
        settings = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NUMBA_DISABLE_JIT": "0" if jit else "1"}
        command = [str(python), "-c", SMOKE, f"{folder}/table"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=settings)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == f"fine with {version}\n"


@pytest.mark.parametrize("version", SUPPORTED)
def test_core_behaviour(version: str) -> None:
    smoke(version, jit=False)


@pytest.mark.slow
@pytest.mark.parametrize("version", SUPPORTED)
def test_kernels_compile(version: str) -> None:
    smoke(version, jit=True)
