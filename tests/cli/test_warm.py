"""`earmark warm`: compiles, or says that all is compiled; refuses what it cannot do."""

from __future__ import annotations

import pytest

from earmark import jit

from .conftest import Earmark

pytestmark = pytest.mark.skipif(not jit.JIT, reason="kernels are plain Python in this run")


def test_warm(earmark: Earmark) -> None:
    first, second = (earmark("warm", "--index", "scan") for _ in range(2))
    assert first.code == second.code == 0
    assert "all kernels were compiled already" in second.err


def test_what_is_refused(earmark: Earmark) -> None:
    assert "no index called 'nope'" in earmark("warm", "--index", "nope").sentence
