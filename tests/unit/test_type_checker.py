"""What a type checker says to people who use the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

GOOD = """
import earmark

m = earmark.Matcher()
best: list[earmark.Match] = m.top_k({"a": 1}, 3, mode="relaxed")
mode: earmark.Mode = "exact"
why: earmark.Explanation = m.explain("x", {"a": 1})
learned = m.adapt([{"a": 1}])
recycled: int = learned.recycled if isinstance(learned, earmark.TreeAdaptation) else 0
count: int = m.stats()["subscriptions"]
"""

BAD = {
    "earmark.nope": "attr-defined",
    "from earmark import Nope": "attr-defined",
    'earmark.Matcher().top_k({}, mode="exakt")': "arg-type",
    'earmark.Matcher().stats()["subscripitons"]': "typeddict-item",
    "earmark.Matcher().adapt([]).nope": "union-attr",
    'earmark.Matcher().explain("x", {}).nope': "attr-defined",
}


def test_right_is_taken_and_wrong_is_found(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(GOOD)
    bad.write_text("import earmark\n" + "".join(f"{line}\n" for line in BAD))
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(good), str(bad)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    reports = [line for line in done.stdout.splitlines() if ": error: " in line]
    found = {int(line.split(":")[1]) - 2: line.rpartition("[")[2].rstrip("]") for line in reports}
    assert all(f"{bad.name}:" in line for line in reports) and done.returncode == 1, done.stdout + done.stderr
    assert found == dict(enumerate(BAD.values())), done.stdout


def test_every_public_name_is_there() -> None:
    import earmark

    for name in earmark.__all__:
        assert getattr(earmark, name) is not None
        assert name in dir(earmark)
