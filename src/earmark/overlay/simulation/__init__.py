"""A network of brokers in one process, with a clock of its own: what does a policy cost, and does everything arrive?

    plan = plan_of(content_of("mics-zipf", 10_000, 1_000), topology_of("tree:31"))
    print(summary(simulate(plan, "covering")))

topology.py   which brokers are neighbours
content.py    what is asked for and published: the workloads of both papers
plan.py       which client does what, and when
faults.py     delays, losses, cuts, crashes
clock.py      what happens when
carriers.py   links, perfect or not
variants.py   policies by name, with options that suit the content
network.py    brokers and clients, moved by the clock
history.py    what clients did and were told
oracle.py     whether that was right, by one central scan
tally.py      what went over the links
report.py     all of it in figures, and in words
plots.py      traffic and table size by policy, drawn

The same plan, faults, policy and seed give the same record, byte for byte.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import IO

from earmark.overlay.simulation.content import CONTENTS, Content, content_of, content_of_rows
from earmark.overlay.simulation.faults import Crash, Cut, Faults, drawn_faults
from earmark.overlay.simulation.network import TICK, Network
from earmark.overlay.simulation.oracle import Verdict, judge
from earmark.overlay.simulation.plan import Plan, plan_of
from earmark.overlay.simulation.report import Report, comparison, control_of, report_of, rest_of, summary
from earmark.overlay.simulation.topology import Topology, topology_of, topology_of_edges
from earmark.overlay.simulation.variants import VARIANTS, shown_options, variant_of
from earmark.progress import track

__all__ = [
    "CONTENTS",
    "VARIANTS",
    "Content",
    "Crash",
    "Cut",
    "Faults",
    "Network",
    "Plan",
    "Report",
    "Topology",
    "Verdict",
    "comparison",
    "content_of",
    "content_of_rows",
    "drawn_faults",
    "plan_of",
    "simulate",
    "summary",
    "topology_of",
    "topology_of_edges",
]


def simulate(
    plan: Plan,
    policy: str = "covering",
    options: Mapping[str, object] | None = None,
    *,
    faults: Faults | None = None,
    seed: int = 1,
    record: IO[bytes] | None = None,
    progress: bool | None = None,
) -> Report:
    """Run a plan in a network whose brokers have this policy, one of VARIANTS, and judge every delivery.

    `options` are given to the policy besides those of the variant. `seed` draws delays and losses of links. `record`
    gets every message as JSON lines. `progress` None means: when stderr is a terminal.
    """
    begun = time.perf_counter()
    name, given = variant_of(policy, plan.content, options or {})
    network = Network(plan, name, given, faults or Faults(), seed, record)
    rests = []
    for place, phase in enumerate(plan.phases):
        start, control = network.agenda.now + TICK, control_of(network)
        instants = len({request.at for request in phase.requests})
        for _ in track(network.run(place), instants, f"{policy}: {phase.name}", progress):
            pass
        rests.append(rest_of(network, place, start, control))
    verdict = judge(network.history)
    seconds = time.perf_counter() - begun
    return report_of(network, policy, shown_options(options or {}), rests, verdict, seed, seconds)
