"""The papers, each a module (or a folder) with its `EXPERIMENTS`."""

from __future__ import annotations

import importlib
import importlib.util
from typing import NamedTuple

from earmark.errors import EarmarkError
from earmark.report.experiment import Experiment, Measurement


class Paper(NamedTuple):
    """A paper: its name here, what it is called, and its page in the documentation."""

    name: str
    title: str
    page: str


PAPERS = (
    Paper(
        "shen",
        "Shen, Tirthapura, Aluru: Indexing for Subscription Covering in Publish-Subscribe Systems",
        "covering.md",
    ),
    Paper(
        "mics",
        "Jafarpour et al.: MICS, an Efficient Content Space Representation Model for Publish/Subscribe Systems",
        "mics.md",
    ),
    Paper(
        "vcr",
        "Wu, Chen, Yu: VCR Indexing for Fast Event Matching for Highly-Overlapping Range Predicates",
        "vcr.md",
    ),
    Paper("ranked", "Machanavajjhala et al.: Scalable Ranked Publish/Subscribe", "ranked-pubsub.md"),
    Paper(
        "be-star",
        "Sadoghi, Jacobsen: Relevance Matters: Capitalizing on Less (Top-k Matching in Publish/Subscribe)",
        "be-star-tree.md",
    ),
)


def experiments_of(paper: str) -> list[Experiment]:
    """Return the experiments of a paper, in the order of the paper."""
    module = f"{__name__}.{paper.replace('-', '_')}"
    if importlib.util.find_spec(module) is None:
        return []
    experiments: list[Experiment] = list(importlib.import_module(module).EXPERIMENTS)
    return experiments


def chosen(paper: str, part: str | None = None) -> list[Experiment]:
    """Return the experiments of a paper, or of "all"; or only one of them, such as "figure-6"."""
    names = [known.name for known in PAPERS]
    if paper != "all" and paper not in names:
        raise EarmarkError(f"expected a paper, one of {', '.join(names)} or all, got {paper!r}")
    every = [experiment for name in names if paper in (name, "all") for experiment in experiments_of(name)]
    if part is None:
        return every
    experiments = [experiment for experiment in every if part in (experiment.name, experiment.label)]
    if not experiments:
        labels = ", ".join(dict.fromkeys(experiment.name for experiment in every))
        raise EarmarkError(f"{paper} has no {part.replace('-', ' ')}; it has {labels}")
    return experiments


def differs_of(measurement: Measurement) -> str:
    """Return what differs from the paper, as the experiment says it now; a note corrected needs no other run."""
    if measurement.paper not in [paper.name for paper in PAPERS]:
        return measurement.differs
    experiments = {experiment.name: experiment for experiment in experiments_of(measurement.paper)}
    return experiments[measurement.name].differs if measurement.name in experiments else measurement.differs


def all_keys() -> list[str]:
    """Return the keys of all experiments: "vcr/figure-6"."""
    return [experiment.key for experiment in chosen("all")]
