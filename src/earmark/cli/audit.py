"""`earmark audit`: duplicates, covered subscriptions, and conditions that match nothing or everything."""

from __future__ import annotations

import json

import click

from earmark.cli import options
from earmark.cli.reading import Reading


@click.command(short_help="Duplicates, covered subscriptions, clauses that never match.")
@click.argument("subscriptions")
@click.option("--json", "as_json", is_flag=True, help="The findings as one JSON object.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write the findings here, one row each (.parquet, .csv, .tsv, .jsonl); the report goes to stdout as well.",
)
@click.option(
    "--shown", default=10, show_default=True, type=click.IntRange(0), metavar="N", help="Findings of each kind to list."
)
@options.reading
def audit(subscriptions: str, as_json: bool, output: str | None, shown: int, reading: Reading) -> None:
    """Which subscriptions say the same, are implied by others, never match, or match everything.

    A covered subscription is one whose events all match another one too; the report names one that is to stay. What is
    reported as redundant can be removed together: every event still matches somebody. Only conditions are compared,
    not scores, weights or tags. SUBSCRIPTIONS is as for `earmark match`.

    \b
    Examples
      earmark audit ads.csv
      earmark audit ads.parquet --json
      earmark audit ads.csv -o findings.csv
    """
    from earmark.cli.load import load
    from earmark.cli.output import write_tables
    from earmark.tabular.write import check_target

    reading.check(subscriptions)
    if output is not None:
        check_target(output, [subscriptions])
    findings = load(subscriptions, reading).matcher.audit()
    if output is not None:
        write_tables(iter([findings.to_arrow()]), output)
    click.echo(json.dumps(findings.to_dict(), ensure_ascii=False) if as_json else findings.report(shown))
