"""`earmark audit`: duplicates, covered subscriptions, and conditions that match nothing or everything."""

from __future__ import annotations

import json

import click

from earmark.cli import options
from earmark.cli.reading import Reading


@click.command(short_help="Find duplicates, covered subscriptions, and clauses that never match.")
@click.argument("subscriptions")
@options.json_object("Print the findings")
@options.file(
    "-o --output",
    "Write the findings here, one row each (.parquet, .csv, .tsv, .jsonl); the report goes to stdout as well.",
)
@options.number("--shown", 10, "Findings of each kind to list.", least=0)
@options.reading
def audit(subscriptions: str, as_json: bool, output: str | None, shown: int, reading: Reading) -> None:
    """Find subscriptions that are duplicates, are covered by others, never match, or match everything.

    Every event that matches a covered subscription matches another one too; the report names one to keep. All redundant
    subscriptions can be removed together without leaving any event unmatched. Only conditions are compared, not scores,
    weights or tags. SUBSCRIPTIONS is as for `earmark match`.

    \b
    Examples
      earmark audit ads.csv
      earmark audit ads.parquet --json
      earmark audit ads.csv -o findings.csv
    """
    from earmark.cli.load import load
    from earmark.cli.output import write_tables

    reading.check(subscriptions, output=output)
    findings = load(subscriptions, reading).matcher.audit()
    if output is not None:
        write_tables(iter([findings.to_arrow()]), output)
    click.echo(json.dumps(findings.to_dict(), ensure_ascii=False) if as_json else findings.report(shown))
