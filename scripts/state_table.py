"""Write the state table of docs/overlay.md from the transitions that brokers follow.

python scripts/state_table.py            prints it
python scripts/state_table.py --write    puts it into the page
"""

from __future__ import annotations

import sys
from pathlib import Path

from earmark.overlay.transitions import RULES, State

PAGE = Path(__file__).parents[1] / "docs" / "overlay.md"
BEGIN, END = "<!-- state table -->\n", "<!-- end of state table -->"


def table() -> str:
    """The states, and for each which message leads to what, in Markdown."""
    lines = ["| state | meaning |", "|---|---|"]
    lines += [f"| {state.name} | {state.value} |" for state in State]
    lines += ["", "| state | message | next state | what happens |", "|---|---|---|---|"]
    lines += ["| ABSENT, DOWN | (`connect`) | GREETING | says Hello, Resynchronise, everything |"]
    connected = "GREETING, GREETED, LISTENING, UP"
    lines += [f"| {connected} | (`disconnect`) | DOWN | publications that may be lost are held |"]
    for rule in RULES:
        lines.append(f"| {rule.state.name} | {rule.message.__name__} | {rule.next.name} | {rule.meaning} |")
    return "\n".join(lines) + "\n"


def page_with_table(text: str) -> str:
    """The page with the present table."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}{table()}{END}{tail}"


def main() -> None:
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page_with_table(PAGE.read_text()))
    else:
        print(table(), end="")


if __name__ == "__main__":
    main()
