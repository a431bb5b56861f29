"""Is the test suite sharp? Change one line at a time, and see whether the fast tests notice.

    python scripts/mutants.py [--revision REV] [--only TEXT] [--jobs N]

Each mutant is one line of `src/`, found by its text, and what it becomes; the tests named with it run on a copy of the
tree (a git worktree of HEAD, or of REV) until one fails. A mutant that no test notices has *survived*, which is a gap
in the suite: exit code 1. Lines are found by text so that the list also serves revisions with other file names; a
mutant whose line a revision does not have is skipped there, and says so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 900
"""Seconds for the tests of one mutant; a mutant that loops for ever is noticed by this."""


class Mutant(NamedTuple):
    """A line of src/ and what it becomes, with the tests that should notice."""

    area: str
    before: str
    after: str
    tests: str
    """Paths, separated by spaces; those that a revision lacks are left out, and without any, all tests run."""


CONTRACT, EVALUATE, KEYS = "tests/contract/test_indexes.py", "tests/unit/segment tests/contract", "tests/unit/keys"
UPDATES, FILES = "tests/unit/engine tests/unit/test_matcher.py tests/stateful", "tests/unit/book tests/faults"
COVER, SPARK = "tests/unit/cover", "tests/spark/test_match.py tests/spark/test_snapshot.py tests/spark/test_shards.py"

MUTANTS = (
    # --- evaluation ---
    Mutant(
        "evaluate",
        "                if at(table.accepts_null, constraint):",
        "                if not at(table.accepts_null, constraint):",
        EVALUATE,
    ),
    Mutant(
        "evaluate",
        "return bool((at(lo, begin) <= key_hi) & (key_lo <= at(hi, begin)))",
        "return bool((at(lo, begin) <= key_hi) & (key_lo < at(hi, begin)))",
        EVALUATE,
    ),
    Mutant(
        "evaluate",
        "        if at(values, middle) < key:",
        "        if at(values, middle) < key - 1:",
        EVALUATE,
    ),
    Mutant(
        "evaluate",
        "return bool(at(table.accepts_null, constraint) != 0)",
        "return bool(at(table.accepts_null, constraint) == 0)",
        EVALUATE,
    ),
    Mutant("evaluate", "            if failures > limit:", "            if failures >= limit:", EVALUATE),
    Mutant("evaluate", "qualifies = begin == stop or not relaxed", "qualifies = not relaxed", EVALUATE),
    Mutant(
        "evaluate",
        "events, e, relaxed, static)\n        if qualifies and (not found or score > best):",
        "events, e, relaxed, static)\n        if qualifies and not found:",
        EVALUATE,
    ),
    Mutant(
        "evaluate",
        "    while position < end and at(events.attr, position) < attr:\n        position += 1\n    return position",
        "    while position < end and at(events.attr, position) <= attr:\n        position += 1\n    return position",
        EVALUATE,
    ),
    # --- ranking ---
    Mutant(
        "ranking",
        "return bool(at(heaps.sequence, i) > at(heaps.sequence, j))",
        "return bool(at(heaps.sequence, i) < at(heaps.sequence, j))",
        CONTRACT,
    ),
    Mutant(
        "ranking",
        "        if score < worst or (score == worst and sequence >= at(heaps.sequence, base)):",
        "        if score <= worst:",
        CONTRACT,
    ),
    Mutant(
        "ranking",
        "    return static + added + (abs(static) + added) * SLACK",
        "    return static + added - (abs(static) + added) * 0.1",
        CONTRACT,
    ),
    # --- kernels of indexes ---
    Mutant(
        "be_star_tree",
        "        if (lo > at(scratch.value, 2 * attr + 1)) | (at(scratch.value, 2 * attr) > hi):",
        "        if (lo > at(scratch.value, 2 * attr + 1)) | (at(scratch.value, 2 * attr) >= hi):",
        "tests/unit/index/be_star_tree " + CONTRACT,
    ),
    Mutant(
        "blocks",
        "    return ~np.uint64(0) >> np.uint64(int(LANES) - count)",
        "    return ~np.uint64(0) >> np.uint64(int(LANES) - count + 1)",
        "tests/unit/index/blocks " + CONTRACT,
    ),
    Mutant(
        "blocks",
        '        above = builder.icmp_signed(">=", stored, splat(builder, args[2], LANES))',
        '        above = builder.icmp_signed(">", stored, splat(builder, args[2], LANES))',
        "tests/unit/index/blocks " + CONTRACT,
    ),
    Mutant(
        "bitsets",
        "        unsure = (doubtful != np.uint64(0)) | is_set(index.verify, entry)",
        "        unsure = is_set(index.verify, entry)",
        "tests/unit/index/bitsets " + CONTRACT,
    ),
    Mutant(
        "bitsets",
        "            open_until = high_bucket + 1",
        "            open_until = high_bucket",
        "tests/unit/index/bitsets " + CONTRACT,
    ),
    Mutant(
        "k_index",
        "        if at(values, middle) <= key:",
        "        if at(values, middle) < key:",
        "tests/unit/index/k_index " + CONTRACT,
    ),
    Mutant(
        "mics",
        "        if at(index.code, middle) >> int(LEVEL_BITS) <= number:",
        "        if at(index.code, middle) >> int(LEVEL_BITS) < number:",
        "tests/unit/index/mics " + CONTRACT,
    ),
    Mutant(
        "ranked",
        "        if middle < last and key_hi >= at(trees.cut, middle):",
        "        if middle < last and key_hi > at(trees.cut, middle):",
        "tests/unit/index/ranked " + CONTRACT,
    ),
    Mutant(
        "vcr",
        "        meets_x = (at(bounds, own) <= box.x_hi) & (box.x_lo <= at(bounds, own + 1))",
        "        meets_x = (at(bounds, own) <= box.x_hi) & (box.x_lo < at(bounds, own + 1))",
        "tests/unit/index/vcr " + CONTRACT,
    ),
    # --- keys ---
    Mutant(
        "keys",
        'token.isascii() and "\\\\" not in token and token.count(token[0]) == 2:',
        'token.isascii() and "\\\\" not in token and token.count(token[0]) >= 2:',
        "tests/unit/language",
    ),
    Mutant(
        "keys",
        "            words[HI + DATA] = self._ends[low != high]",
        "            words[HI + DATA] = self._ends[low == high]",
        "tests/unit/index/test_one.py tests/contract/test_arrays.py",
    ),
    Mutant(
        "keys",
        "    return bits if bits >= 0 else SIGN - bits",
        "    return bits if bits >= 0 else SIGN + bits",
        KEYS,
    ),
    Mutant(
        "keys",
        "        if merged and low <= merged[-1][1] + 1:",
        "        if merged and low <= merged[-1][1] + 2:",
        KEYS,
    ),
    Mutant("keys", "        if a[i][1] < b[j][1]:", "        if a[i][1] > b[j][1]:", KEYS),
    Mutant("keys", "            found.append((low, first - 1))", "            found.append((low, first))", KEYS),
    Mutant(
        "keys",
        "        return KeySet(intersect(self.intervals, other.intervals), self.null and other.null)",
        "        return KeySet(intersect(self.intervals, other.intervals), self.null or other.null)",
        KEYS,
    ),
    Mutant("keys", "            if step < 2:", "            if step < 1:", KEYS + " tests/stateful"),
    Mutant(
        "keys",
        "    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None",
        "    return trimmed[:-1] + bytes([trimmed[-1]]) if trimmed else None",
        KEYS,
    ),
    # --- updates ---
    Mutant(
        "updates",
        "    sequence = int(version.segments[place.number].segment.arrays.sequence[place.slot])",
        "    sequence = version.next_sequence",
        UPDATES,
    ),
    Mutant("updates", "        counted[number] += sign * count", "        counted[number] += count", UPDATES),
    Mutant(
        "updates",
        "        return slot if slot is not None and self.is_live(slot) else None",
        "        return slot",
        UPDATES,
    ),
    Mutant(
        "updates",
        "        if len(one) > len(before):",
        "        if len(one) > len(before) + 1:",
        UPDATES,
    ),
    Mutant(
        "updates",
        "    order = np.lexsort((sequence, events) if k is None else (sequence, -scores, events))",
        "    order = np.lexsort((events,) if k is None else (sequence, -scores, events))",
        UPDATES + " " + CONTRACT,
    ),
    # --- files ---
    Mutant(
        "files",
        "        require(digest(_bytes_of(array)) == checksum, ",
        "        require(bool(checksum), ",
        FILES,
    ),
    Mutant(
        "files",
        "        require(body + end <= len(content), ",
        "        require(body <= len(content), ",
        FILES,
    ),
    Mutant(
        "files",
        "        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)",
        "        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)",
        FILES,
    ),
    Mutant("files", "        self.check_parent()", "        pass", FILES + " tests/stateful/test_books.py"),
    # --- covering ---
    Mutant(
        "cover",
        "    if at(table.accepts_null, b) > at(table.accepts_null, a):",
        "    if at(table.accepts_null, b) < at(table.accepts_null, a):",
        COVER,
    ),
    Mutant(
        "cover",
        "    if at(table.sequence, above) < at(table.sequence, below):",
        "    if at(table.sequence, above) > at(table.sequence, below):",
        COVER,
    ),
    # --- Spark ---
    Mutant(
        "spark",
        "        place = first[table] + number % (first[table + 1] - first[table])",
        "        place = first[table + 1] + number % (first[table + 1] - first[table])",
        SPARK,
    ),
    Mutant("spark", "    return order[first], order[~first]", "    return order[~first], order[first]", SPARK),
    Mutant(
        "spark",
        "        met[self.segment_of[covers], np.repeat(np.arange(count), np.diff(pointers))] = True",
        "        met[self.segment_of[covers][1:], np.repeat(np.arange(count), np.diff(pointers))[1:]] = True",
        "tests/unit/engine tests/spark/test_shards.py",
    ),
)


def place_of(tree: Path, mutant: Mutant) -> Path | None:
    """The only file of a tree that has the line, or None."""
    found = [file for file in sorted((tree / "src").rglob("*.py")) if mutant.before in file.read_text()]
    return found[0] if len(found) == 1 and found[0].read_text().count(mutant.before) == 1 else None


def outcome(tree: Path, mutant: Mutant) -> str:
    """What became of a mutant: killed, SURVIVED, or skipped where the tree does not have its line."""
    file = place_of(tree, mutant)
    if file is None:
        return "skipped: the line is not there, or not once"
    text = file.read_text()
    tests = [path for path in mutant.tests.split() if (tree / path).exists()] or ["tests"]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    begun = time.perf_counter()
    file.write_text(text.replace(mutant.before, mutant.after))
    try:
        run = subprocess.run(
            command,
            cwd=tree,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
            env={**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONHASHSEED": "0"},
        )
        noticed = run.returncode == 1
        said = "" if run.returncode in (0, 1) else f" (pytest says {run.returncode}: {run.stdout.decode()[-300:]})"
    except subprocess.TimeoutExpired:
        noticed, said = True, " (by the time limit)"
    finally:
        file.write_text(text)
    seconds = time.perf_counter() - begun
    return f"{'killed' if noticed else 'SURVIVED'} in {seconds:.0f} s{said}"


def _shown(mutant: Mutant) -> str:
    return " ".join(mutant.before.split())[:84]


def main(arguments: list[str] | None = None) -> int:
    """Try all mutants; 1 when one survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--revision", default="HEAD")
    parser.add_argument("--only", default="", help="Mutants whose area or line has this text.")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args(arguments)
    chosen = [one for one in MUTANTS if given.only in one.area or given.only in one.before]
    with tempfile.TemporaryDirectory(prefix="earmark-mutants-") as folder:
        trees = [Path(folder) / str(number) for number in range(given.jobs)]
        for tree in trees:
            subprocess.run(["git", "worktree", "add", "-q", "--detach", tree, given.revision], cwd=ROOT, check=True)
        try:
            survived, skipped = _tried(trees, chosen)
        finally:
            for tree in trees:
                subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)
    print(f"{len(chosen)} mutants: {len(chosen) - survived - skipped} killed, {survived} survived, {skipped} skipped")
    return int(survived > 0)


def _tried(trees: list[Path], chosen: list[Mutant]) -> tuple[int, int]:
    """How many survived, and how many were skipped."""
    free, results = list(trees), []

    def attempt(mutant: Mutant) -> None:
        tree = free.pop()
        result = outcome(tree, mutant)
        free.append(tree)
        print(f"{mutant.area:13} {_shown(mutant):84} {result}", flush=True)
        results.append(result)

    with ThreadPoolExecutor(len(trees)) as pool:
        list(pool.map(attempt, chosen))
    return sum("SURVIVED" in one for one in results), sum("skipped" in one for one in results)


if __name__ == "__main__":
    sys.exit(main())
