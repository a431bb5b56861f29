"""A process that changes a book from two threads until it is killed, and what must be there afterwards.

Before each change a thread writes `begin` with what it is about to do to a pipe, and after it `done`: what is `done`
must last; what was begun last may have happened or not; nothing else may have.

Each thread has ids of its own: `0-…` and `1-…`. Every fourth change is a transaction over a group of three ids, which
must all have the same score, so that a change that is there in part shows.
"""

from __future__ import annotations

import json
import os
import random
import threading
from typing import Any

import earmark
from earmark.book import checkpoints

GROUP = ("x", "y", "z")


def change(m: earmark.Book, thread: int, number: int, ids: list[str], rng: random.Random, say: Any) -> None:
    """One change, announced and acknowledged."""
    kind = rng.choice(["add", "add", "update", "remove", "group", "many"])
    if kind in ("update", "remove") and not ids:
        kind = "add"
    if kind == "add":
        id = f"{thread}-{number}"
        say("begin", {id: number})
        m.add(id, f"age > {number} AND city = 'c{number}'", score=number)
        ids.append(id)
    elif kind == "update":
        id = rng.choice(ids)
        say("begin", {id: number})
        m.update(id, score=number)
    elif kind == "remove":
        id = ids.pop(rng.randrange(len(ids)))
        say("begin", {id: None})
        m.remove(id)
    elif kind == "many":
        new = [f"{thread}-{number}-{i}" for i in range(5)]
        say("begin", dict.fromkeys(new, number))
        m.add_many([{"id": id, "condition": f"age = {number}", "score": number} for id in new])
        ids.extend(new)
    else:
        say("begin", {f"{thread}-{one}": number for one in GROUP})
        with m.change(author=str(thread), message=str(number)) as c:
            for one in GROUP:
                c.upsert(f"{thread}-{one}", f"age < {number}", score=number)
    say("done", None)


def work(m: earmark.Book, thread: int, seed: int, first: int, pipe: int, lock: threading.Lock) -> None:
    rng = random.Random(seed * 2 + thread)
    ids = [str(one) for one in m.ids() if str(one).startswith(f"{thread}-") and str(one)[2:] not in GROUP]

    def say(word: str, what: Any) -> None:
        with lock:
            os.write(pipe, json.dumps([word, thread, what]).encode() + b"\n")

    number = first
    while True:
        number += 1
        change(m, thread, number, ids, rng, say)


def read_until_killed(folder: str) -> None:
    """Follow a book, and look back."""
    m = earmark.open(folder, readonly=True)
    while True:
        number = m.refresh()
        m.history("0-x")
        m.as_of(max(0, number - 3))


def change_until_killed(folder: str, seed: int, durability: Any, pipe: int, index: str | None) -> None:
    checkpoints.LEAST_ROWS = 40  # so that kills meet checkpoints, too
    m = earmark.open(folder, index=index, durability=durability)
    lock = threading.Lock()
    first = max([0, *(int(m[one].score) for one in m.ids())])
    threads = [
        threading.Thread(target=work, args=(m, n, seed, first + n * 1000, pipe, lock), daemon=True) for n in (0, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
