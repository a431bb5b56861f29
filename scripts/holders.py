"""Which classes hold subscriptions as arrays? Prints each class that has a field of their arrays, and where.

    python scripts/holders.py

A class counts when a field of it is a `SegmentArrays` or a class that holds one, directly or in a container; classes of
indexes, which hold the arrays that they search, are listed apart.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "earmark"
BASE = {"SegmentArrays", "Segment", "IndexedSegment", "Version"}


def fields(node: ast.ClassDef) -> set[str]:
    """The names in the annotations of a class's fields, and of what its `__init__` assigns to itself."""
    found: set[str] = set()
    for item in ast.walk(node):
        if isinstance(item, ast.AnnAssign):
            is_field = isinstance(item.target, ast.Name) and item in node.body
            is_own = isinstance(item.target, ast.Attribute) and getattr(item.target.value, "id", "") == "self"
            if is_field or is_own:
                found |= {part.id for part in ast.walk(item.annotation) if isinstance(part, ast.Name)}
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            types = {a.arg: ast.unparse(a.annotation) for a in method.args.args if a.annotation is not None}
            for item in ast.walk(method):
                if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Attribute | ast.Tuple):
                    for name in ast.walk(item.value):
                        if isinstance(name, ast.Name) and name.id in types:
                            found |= set(types[name.id].replace("[", " ").replace("]", " ").replace("|", " ").split())
    return found


def holders() -> list[tuple[str, str, str]]:
    """(module, class, the array types in its fields), by module."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                held = fields(node) & BASE - {node.name}
                if held or node.name in BASE:
                    found.append((str(path.relative_to(SOURCE)), node.name, ", ".join(sorted(held)) or "the arrays"))
    return found


def main() -> int:
    """Print the list."""
    of_index, others = [], []
    for row in holders():
        (of_index if row[0].startswith(("index/", "cover/")) else others).append(row)
    for title, rows in (("subscriptions as arrays", others), ("structures over them", of_index)):
        print(title)
        for module, name, held in rows:
            print(f"  {module:34} {name:24} {held}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
