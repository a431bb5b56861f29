"""What the pages about Spark show can be copied: names are imported, and the image step warms what snapshots use."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import earmark.spark
from earmark.spark.snapshot import DEFAULT_INDEX

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["spark.md", "scale.md"])
def test_names_are_imported(page: str) -> None:
    blocks = re.findall(r"^```py\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    known: set[str] = set()
    for block in blocks:
        tree = ast.parse(block)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                known |= {alias.asname or alias.name for alias in node.names}
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert used & set(earmark.spark.__all__) <= known, block
    assert known


def test_the_image_step_warms_the_index_of_snapshots() -> None:
    assert f"earmark warm --index {DEFAULT_INDEX}" in (DOCS / "spark.md").read_text()
