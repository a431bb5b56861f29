"""`earmark broker rekey` read the first MiB of a longer file, and said that it was no JSON."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from earmark.cli.app import main


def test_a_long_file_is_refused_for_its_length(tmp_path: Path) -> None:
    token, space = tmp_path / "token", tmp_path / "space.json"
    token.write_text("a token that nobody knows")
    token.chmod(0o600)
    space.write_text('["' + "x" * (1 << 20) + '"]')
    done = CliRunner().invoke(main, ["broker", "rekey", "127.0.0.1:1", str(space), "--token-file", str(token)])
    assert done.exit_code == 2
    assert done.output.strip().endswith("space.json': expected a space of at most 1,048,576 bytes")
