"""Two results of the same program: what changed, and what is noise?

    python benchmarks/differences.py OLD.json NEW.json

A figure is `faster` or `slower` (for memory `smaller` or `larger`) only when all repeats of one side lie beyond all
repeats of the other, and the medians are further apart than the floor; else it is `noise`. The floor is 10 % for
times, three times that when a side has a single measurement and so no spread to judge by, and 5 % for sizes. Seven
repeats a side fall apart like that by chance once in 1,700 times, three repeats once in 10: for a verdict use seven.

What neither spread shows is a machine that was busier during one of the runs: measure both on an idle one, twice.
Exit code: 0, or 1 when something is slower, larger, wrong or gone, or 2 when a file cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from earmark.errors import EarmarkError
from earmark.report.protocol import summary
from results import Figure, Result, read
from tables import number, size_name, with_spread

TIME_FLOOR, SIZE_FLOOR, SINGLE = 0.10, 0.05, 3.0
SIZES = ("MiB", "bytes")
BAD = ("slower", "larger", "WRONG", "failed", "gone")


def verdict(old: Sequence[float], new: Sequence[float], floor: float = TIME_FLOOR) -> str:
    """`faster`, `slower` or `noise`; less is better."""
    before, after = summary(old), summary(new)
    if min(len(old), len(new)) == 1:
        floor *= SINGLE
    if after.low > before.high and after.median > before.median * (1 + floor):
        return "slower"
    if after.high < before.low and after.median * (1 + floor) < before.median:
        return "faster"
    return "noise"


def label(old: Figure | None, new: Figure | None) -> str:
    """What to say of one figure in two results."""
    if new is None:
        return "gone"
    if new.status in ("wrong", "failed"):
        return "WRONG" if new.status == "wrong" else "failed"
    if new.status == "skipped":
        return "skipped" if old is None or old.status != "ok" else "gone"
    if old is None or old.status != "ok":
        return "new"
    if (old.unit, old.events) != (new.unit, new.events):
        return "not comparable"
    if new.unit in SIZES:
        of_size = {"faster": "smaller", "slower": "larger", "noise": "noise"}
        return of_size[verdict(old.values, new.values, SIZE_FLOOR / SINGLE)]
    return verdict(old.values, new.values)


def differences(old: Result, new: Result) -> list[str]:
    """Why the two may not compare."""
    found = []
    for name in sorted({*old.machine, *new.machine} - {"commit", "load_average", "versions"}):
        if old.machine.get(name) != new.machine.get(name):
            found.append(f"{name}: {old.machine.get(name)} then, {new.machine.get(name)} now")
    before, after = old.machine.get("versions", {}), new.machine.get("versions", {})
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            found.append(f"{name}: {before.get(name)} then, {after.get(name)} now")
    if old.settings.get("threads") != new.settings.get("threads"):
        found.append(f"threads: {old.settings.get('threads')} then, {new.settings.get('threads')} now")
    return found


def compared(old: Result, new: Result) -> list[tuple[str, Figure | None, Figure | None]]:
    """(label, old, new) for every figure of either."""
    before, after = ({one.key: one for one in result.figures} for result in (old, new))
    keys = [*after, *(key for key in before if key not in after)]
    return [(label(before.get(key), after.get(key)), before.get(key), after.get(key)) for key in keys]


def line(told: str, old: Figure | None, new: Figure | None) -> str:
    """One figure, in one line."""
    figure = new or old
    assert figure is not None
    name = f"{figure.workload} {size_name(figure.subscriptions)}: {figure.engine}, {figure.what}"
    sides = [with_spread(one) if one and one.status == "ok" else one.status if one else "-" for one in (old, new)]
    change = ""
    if old and new and old.status == new.status == "ok" and old.summary.median:
        change = f"x {number(new.summary.median / old.summary.median)}"
    return f"{told:15}{name:44}{sides[0]:>28} ->{sides[1]:>28} {figure.unit:10}{change}".rstrip()


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args(given)
    try:
        old, new = read(options.old), read(options.new)
        if old.program != new.program:
            raise EarmarkError(f"{options.old} is of {old.program}.py and {options.new} of {new.program}.py.")
    except EarmarkError as problem:
        print(f"differences.py: {problem}", file=sys.stderr)
        return 2
    for difference in differences(old, new):
        print(f"caution, {difference}")
    found = compared(old, new)
    for told, before, after in found:
        print(line(told, before, after))
    counts = {told: sum(one[0] == told for one in found) for told in dict.fromkeys(one[0] for one in found)}
    print("\n" + ", ".join(f"{count} {told}" for told, count in counts.items()))
    return 1 if any(told in BAD for told in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
