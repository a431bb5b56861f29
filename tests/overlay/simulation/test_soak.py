"""A million messages per policy, in networks where everything goes wrong (`make soak`; fewer in `make test-all`)."""

from __future__ import annotations

import pytest

from earmark.overlay.simulation import VARIANTS, content_of, drawn_faults, plan_of, simulate, summary, topology_of

SOAK, SHORT = 1_000_000, 50_000
TOPOLOGIES = ("figure-1", "line:9", "star:12", "tree:15:3", "random:20")
CONTENTS = ("shen-uniform", "mics-zipf", "shen-zipf", "mics-uniform")


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("policy", VARIANTS)
def test_many_messages(policy: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    is_soak = request.config.getoption("--hypothesis-profile") == "soak"
    begin = int(request.config.getoption("--hypothesis-seed") or 0) if is_soak else 0
    messages, runs, deliveries = 0, 0, 0
    while messages < (SOAK if is_soak else SHORT):
        seed = begin + runs
        content = content_of(CONTENTS[seed % 4], 600, 400, attributes=2 + seed % 2, unsubscribes=0.3, seed=seed)
        topology = topology_of(TOPOLOGIES[seed % 5], seed)
        whole = plan_of(content, topology, withdraw=0.2, mixed=bool(seed % 3), at_once=1 + seed % 7, seed=seed)
        faults = drawn_faults(
            whole, cuts=20, crashes=8, longest=0.5, seed=seed, loss=0.05, duplication=0.05, jitter=0.009
        )
        report = simulate(whole, policy, faults=faults, seed=seed)
        assert report.verdict.is_exact, f"seed {seed}\n{summary(report)}"
        messages += sum(report.messages.values())
        deliveries += report.verdict.delivered
        runs += 1
        assert runs < 2_000, "runs have hardly any messages"
    with capsys.disabled():
        what = f"{messages:,} messages in {runs:,} networks, {deliveries:,} deliveries, all exact"
        print(f"\n{policy} from seed {begin}: {what}")
