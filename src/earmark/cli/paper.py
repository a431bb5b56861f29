"""`earmark paper`: run the experiments of the five papers, and judge their claims."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from earmark.cli import options
from earmark.errors import EarmarkError

NAMES = ("list", "all", "shen", "mics", "vcr", "ranked", "be-star")


@click.command(short_help="Run the experiments of the papers: tables, plots and verdicts.")
@click.argument("paper", type=click.Choice(NAMES), metavar="list|all|PAPER")
@click.option("--figure", type=int, metavar="N", help="Only this figure.")
@click.option("--table", type=int, metavar="N", help="Only this table.")
@click.option("--experiment", metavar="NAME", help="Only this one: figure-6, table-2, or another that `list` names.")
@options.choice(
    "--scale", "quick", ("tiny", "quick", "full"), "Sizes: the papers' (full), all in ten minutes, or a test."
)
@click.option("--out", default="report", show_default=True, metavar="FOLDER", help="Where results and report go.")
@options.number("--seed", 2003, "Seed of everything random.", least=0)
@click.option("--resume", is_flag=True, help="Skip what the folder has from the same version of earmark.")
@click.pass_context
def paper(
    context: click.Context,
    paper: str,
    figure: int | None,
    table: int | None,
    experiment: str | None,
    scale: str,
    out: str,
    seed: int,
    resume: bool,
) -> None:
    """Run the experiments of a paper on this code, and judge what the paper claims by what is measured.

    PAPER is shen (covering), mics, vcr, ranked (ranked publish/subscribe) or be-star; `all` runs all of them, and
    `list` says what there is. Each experiment leaves JSON (with raw samples), SVG and PNG in the folder; report.html
    shows all results of the folder, with the papers' numbers beside ours. A run that was interrupted has a report of
    what it measured, and --resume continues it. Needs earmark[report].

    \b
    Examples
      earmark paper list
      earmark paper vcr --figure 6
      earmark paper all --scale full --out full-report
      earmark paper all --scale full --out full-report --resume
    """
    from earmark.report.papers import PAPERS, chosen, experiments_of
    from earmark.report.plots import check_installed
    from earmark.report.run import run

    if paper == "list":
        given = [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        if len(given) > 1:
            raise EarmarkError(
                f"list takes no options, got {', '.join(f'--{name}' for name in given if name != 'paper')}"
            )
        for known in PAPERS:
            click.echo(f"{known.name}  {known.title}")
            known_experiments = experiments_of(known.name)
            width = max(len(known_experiment.name) for known_experiment in known_experiments)
            for known_experiment in known_experiments:
                click.echo(f"  {known_experiment.name:<{width}}  {known_experiment.title}")
        return
    numbered = [f"{kind}-{n}" for kind, n in (("figure", figure), ("table", table)) if n is not None]
    parts = numbered if experiment is None else [experiment, *numbered]
    if len(parts) > 1:
        raise EarmarkError("expected one of --figure, --table and --experiment, got several")
    experiments = chosen(paper, parts[0] if parts else None)
    check_installed()
    folder = Path(out)
    run(experiments, scale, folder, click.echo, seed, resume)
    click.echo(f"report: {folder / 'report.html'}")
