"""Without the JIT everything works the same: the twins in plain Python give the kernels' answers, to the last bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, sys
from random import Random
import numba
from earmark import Interval, Matcher

random = Random(5)
folder = sys.argv[1]


def condition():
    parts = []
    for name in random.sample("abcd", random.choice((1, 1, 2, 3))):
        low = random.randrange(-4, 5)
        parts.append(random.choice((
            f"{name} BETWEEN {low} AND {low + 3}", f"{name} != {low}", f"{name} IS NULL", f"{name} > {low}",
            f"{name} IN ({low}, {low + 2}, 7)", f"NOT ({name} < {low})", f"{name} <=> {low}",
        )))
    if random.random() < 0.4:
        parts.append(random.choice(("s LIKE 'b%'", "s = 'bb'", "s > 'c'", "s NOT IN ('a', 'bb')", "f >= 1.5D")))
    return random.choice((" AND ", " AND ", " OR ")).join(parts)


def event():
    made = {name: random.randrange(-5, 6) for name in "abcd" if random.random() < 0.8}
    if random.random() < 0.3:
        made["a"] = Interval(-2, random.randrange(-2, 5))
    if random.random() < 0.7:
        made["s"] = random.choice(("a", "b", "bb", "bc", "d"))
    if random.random() < 0.5:
        made["f"] = random.choice((1.5, -0.0, float("nan")))
    return made


m = Matcher()
for i in range(90):
    text = condition()
    weights = {name: random.choice((0.0, 0.1, 2.5)) for name in "abcd" if f"{name} " in text} or None
    m.add(f"s{i}", text, weights=weights, score=random.choice((-1.0, 0.0, 0.3)), tags={"t": str(i % 3)})
events = [event() for _ in range(25)]
answers = []


def ask(m):
    for event in events:
        weights = {"a": 0.7, "b": 0.0}
        answers.append([
            m.match(event), m.match(event, scope={"t": "1"}), m.top_k(event, 5),
            m.top_k(event, 4, mode="relaxed", weights=weights), str(m.near_misses(event, 2, limit=6)),
            str(m.explain(m.ids()[3], event)),
        ])
    answers.append(m.match_many(events).to_pydict())
    answers.append(m.top_k_many(events, 3, mode="relaxed", weights={"c": 3}).to_pydict())
    answers.append(m.top_k_many(events, 3).to_pydict())
    checked = m.verify(events)
    answers.append([checked.events, checked.matches, len(checked.differences)])
    answers.append(m.never_matching())


ask(m)
m.remove_many([f"s{i}" for i in range(0, 90, 4)])
m.update("s1", "a > 0 AND s < 'bbb'")
m.match({"b": 0.5})  # widens
events = events[:8]
ask(m)
m.save(folder)
loaded = Matcher.load(folder)
ask(loaded)
answers.append(loaded.to_arrow().drop_columns("clauses").to_pydict())
print(json.dumps({"jit": not numba.config.DISABLE_JIT, "answers": answers}))
"""


def answers(folder: Path, disabled: bool) -> tuple[bool, str]:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1" if disabled else "0"}
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    flag, _, rest = done.stdout.partition(', "answers": ')
    return flag == '{"jit": true', rest


@pytest.mark.timeout(500)
def test_plain_python_gives_the_same_answers(tmp_path: Path) -> None:
    jitted, plain = answers(tmp_path / "jit", disabled=False), answers(tmp_path / "plain", disabled=True)
    assert (jitted[0], plain[0]) == (True, False)
    assert plain[1] == jitted[1]
    assert len(plain[1]) > 10_000
