"""The state table of docs/overlay.md is the one that brokers follow, and every action exists."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from earmark.overlay.broker import Broker
from earmark.overlay.messages import KINDS, InForce, Notify, Refused, Shed
from earmark.overlay.transitions import RULES, TABLE

SCRIPT = Path(__file__).parents[2] / "scripts" / "state_table.py"


def test_the_page_has_the_present_table():
    spec = importlib.util.spec_from_file_location("state_table", SCRIPT)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = script.PAGE.read_text()
    assert script.page_with_table(text) == text, "run: python scripts/state_table.py --write"


def test_every_action_exists_and_every_message_is_expected_somewhere():
    assert all(callable(getattr(Broker, rule.action)) for rule in RULES)
    assert len(TABLE) == len(RULES)
    assert {rule.message for rule in RULES} == set(KINDS) - {Notify, Refused, Shed}
    assert InForce in {rule.message for rule in RULES}
