"""Write the numbers of docs/results.md and docs/papers/*.md from the committed results, docs/results/.

    python scripts/paper_pages.py [--check | --report | --unexplained]

With --check nothing is written; exit code 1 says that a page differs. With --report it also draws all figures again
and writes docs/results/report.html. With --unexplained it prints the failing claims that have no explanation yet, with
their operation counts, as TOML to fill in (src/earmark/report/explanations/, where measured numbers are placeholders:
src/earmark/report/citations.py).
"""

from __future__ import annotations

import sys
from pathlib import Path

from earmark.report.explanations import explained
from earmark.report.pages import filled, pages, unexplained
from earmark.report.papers import all_keys
from earmark.report.results import read_all
from earmark.report.run import write_report

DOCS = Path(__file__).parents[1] / "docs"


def main() -> int:
    measurements = read_all(DOCS / "results", all_keys())
    if "--unexplained" in sys.argv:
        print(unexplained(measurements))
        return 0
    stale = []
    for page in pages(DOCS):
        text = page.read_text(encoding="utf-8")
        if (wanted := filled(text, measurements)) != text:
            stale.append(page.name)
            if "--check" not in sys.argv:
                page.write_text(wanted, encoding="utf-8")
    if "--report" in sys.argv:
        print(f"written: {write_report(DOCS / 'results', explained(measurements))}")
    print("differ: " + ", ".join(stale) if stale else "all pages are up to date")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
