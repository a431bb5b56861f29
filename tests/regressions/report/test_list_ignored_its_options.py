"""`earmark paper list --figure 6 --scale full` listed everything, as if it had no options."""

from __future__ import annotations

from click.testing import CliRunner

from earmark.cli.app import main


def test_list_refuses_options() -> None:
    result = CliRunner().invoke(main, ["paper", "list", "--figure", "6", "--scale", "full"])
    assert result.exit_code == 2
    assert "list takes no options, got --figure, --scale" in result.output
    assert CliRunner().invoke(main, ["paper", "list"]).exit_code == 0
