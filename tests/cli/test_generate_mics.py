"""`earmark generate mics-uniform` and `mics-zipf`: the files hold the generator's rows, and match as they do."""

from __future__ import annotations

import pytest

from earmark.workload.mics import mics

from .conftest import Earmark


@pytest.mark.parametrize("distribution", ["uniform", "zipf"])
def test_generate_and_match(earmark: Earmark, distribution: str) -> None:
    sizes = ("--subscriptions", "300", "--events", "1200", "--seed", "5")
    made = earmark("generate", f"mics-{distribution}", "data", *sizes, "--format", "csv")
    assert (made.code, made.out) == (0, "data/subscriptions.csv\ndata/events.csv\n")
    found = earmark("match", "data/subscriptions.csv", "data/events.csv", "--json").rows()
    data = mics(distribution, 300, 1200, seed=5)
    inside = (data.sub_lo <= data.event_value[:, None]) & (data.event_value[:, None] <= data.sub_hi)
    assert len(found) == inside.all(axis=2).sum()


def test_options_of_begen_are_refused(earmark: Earmark) -> None:
    told = earmark("generate", "mics-zipf", "data", "--zipf", "1")
    assert told.code != 0
    assert "--zipf is an option of begen; mics-zipf has no parameters" in told.err
