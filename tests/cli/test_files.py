"""What the text formats can hold: quotes, line breaks, marks, NULL and empty, large numbers, nesting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from earmark.tabular.read import MAX_LINE

from .conftest import Earmark
from .test_commands import write


def found(earmark: Earmark, tmp_path: Path, conditions: dict[Any, str], name: str, content: bytes | str) -> list[Any]:
    """(event, subscription) pairs."""
    write(tmp_path / "s.jsonl", [{"id": key, "condition": text} for key, text in conditions.items()])
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    rows = earmark("match", "s.jsonl", name, "--json").rows()
    return [(row["event"], row["subscription"]) for row in rows]


def test_csv_quotes_breaks_mark_and_crlf(earmark: Earmark, tmp_path: Path) -> None:
    conditions = {1: r"t = 'a\r\nb'", 2: "t = 'say \"hi\", now'", 3: "n = 3"}
    content = b'\xef\xbb\xbfn,t\r\n1,"a\r\nb"\r\n\r\n2,"say ""hi"", now"\r\n3,x\r\n'
    assert found(earmark, tmp_path, conditions, "e.csv", content) == [(0, 1), (1, 2), (2, 3)]


def test_csv_empty_and_null(earmark: Earmark, tmp_path: Path) -> None:
    conditions = {1: "t IS NULL", 2: "t = ''", 3: "n IS NULL", 4: "t = 'NA'", 5: "n = 1"}
    pairs = found(earmark, tmp_path, conditions, "e.csv", 'n,t\n1,\n1,""\n"",x\n,NA\n')
    assert pairs == [(0, 1), (0, 5), (1, 2), (1, 5), (2, 3), (3, 3), (3, 4)]


def test_csv_numbers(earmark: Earmark, tmp_path: Path) -> None:
    big = 2**53 + 1
    conditions = {1: f"n = {big}", 2: "n = 1000", 3: "f > 0.5D", 4: "f = CAST('NaN' AS DOUBLE)", 5: "b", 6: "n = -5"}
    content = f"n,f,b\n{big},0.75,true\n1e3,nan,false\n -5 ,1,TRUE\n{big - 1},,0\n"
    pairs = found(earmark, tmp_path, conditions, "e.csv", content)
    assert pairs == [(0, 1), (0, 3), (0, 5), (1, 2), (1, 3), (1, 4), (2, 3), (2, 5), (2, 6)]


def test_csv_a_fraction_widens_past_the_first_chunk(earmark: Earmark, tmp_path: Path) -> None:
    content = "n\n" + "3\n" * 20_000 + "7.5\n" + "8\n"
    assert found(earmark, tmp_path, {1: "n > 7"}, "e.csv", content) == [(20_000, 1), (20_001, 1)]


def test_csv_times(earmark: Earmark, tmp_path: Path) -> None:
    conditions = {1: "at >= TIMESTAMP '2024-06-01 12:00:00'", 2: "day = DATE '2024-02-29'"}
    content = "at,day\n2024-06-01T12:00:00,2024-02-29\n2024-06-01 11:59:59.999999,2024-2-29\n2024-6-2,2024-03-01\n"
    assert found(earmark, tmp_path, conditions, "e.csv", content) == [(0, 1), (0, 2), (1, 2), (2, 1)]
    zoned = "at\n2024-06-01T14:00:00+02:00\n2024-06-01T13:59:59+02:00\n"
    assert found(earmark, tmp_path, conditions, "e.csv", zoned) == [(0, 1)]


def test_csv_what_nothing_has_typed_yet(earmark: Earmark, tmp_path: Path) -> None:
    conditions = {name: f"{name} IS NOT NULL" for name in ("i", "f", "b", "d", "t", "s")}
    content = "i,f,b,d,t,s\n1,1.5,true,2024-01-01,2024-01-01 10:00:00,x\n,,,,,\n"
    assert found(earmark, tmp_path, conditions, "e.csv", content) == [(0, name) for name in conditions]


def test_csv_ids_that_only_look_like_numbers(earmark: Earmark, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("id,condition\n007,a = 1\n8,a = 1\n")
    (tmp_path / "e.csv").write_text("a\n1\n")
    assert [row["subscription"] for row in earmark("match", "s.csv", "e.csv", "--json").rows()] == ["007", "8"]


def test_csv_longer_than_a_block(earmark: Earmark, tmp_path: Path) -> None:
    content = "pad,n\n" + "".join(f"{'x' * 400},{i}\n" for i in range(15_000))
    assert found(earmark, tmp_path, {1: "n = 14999", 2: "n = 0"}, "e.csv", content) == [(0, 2), (14_999, 1)]


def test_json_nested_missing_blank_and_large(earmark: Earmark, tmp_path: Path) -> None:
    big = 2**53 + 1
    conditions = {1: f"n = {big}", 2: "a.b.c = 'x'", 3: "n IS NULL", 4: "n BETWEEN 5 AND 6", 5: "n = 1.5"}
    lines = [{"n": big}, {"a": {"b": {"c": "x"}}, "n": big - 1}, {}, {"n": {"lo": 6, "hi": 9}}, {"a.b.c": "x", "n": 1}]
    content = "\n\n".join(json.dumps(line) for line in lines) + "\n"
    del conditions[5]
    pairs = found(earmark, tmp_path, conditions, "e.jsonl", content)
    assert pairs == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 2)]


def test_json_integers_stay_exact_beside_fractions(earmark: Earmark, tmp_path: Path) -> None:
    big = 2**53 + 1
    content = f'{{"n": {big}, "f": 1}}\n{{"n": {big - 1}, "f": 1.5}}\n{{"n": 3.0}}\n'
    assert found(earmark, tmp_path, {1: f"n = {big}", 2: "f > 1.25D", 3: "n = 3"}, "e.jsonl", content) == [
        (0, 1),
        (1, 2),
        (2, 3),
    ]


@pytest.mark.parametrize("name", ["e.json", "e.ndjson", "E.JSONL"])
def test_json_by_other_names(earmark: Earmark, tmp_path: Path, name: str) -> None:
    assert found(earmark, tmp_path, {1: "n = 1"}, name, '{"n": 1}') == [(0, 1)]


def test_json_a_line_over_the_limit(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "s.jsonl", [{"id": 1, "condition": "n = 1"}])
    with (tmp_path / "e.jsonl").open("wb") as file:
        file.write(b'{"n": 1}\n{"n": 1')
        file.seek(MAX_LINE + 20)
        file.write(b"}\n")
    assert earmark("match", "s.jsonl", "e.jsonl").sentence == "'e.jsonl', line 2: longer than 64 MB"


def test_json_output_of_texts_beyond_ascii(earmark: Earmark, tmp_path: Path) -> None:
    write(tmp_path / "s.jsonl", [{"id": 'ключ "☃"', "condition": "n = 1"}])
    (tmp_path / "e.csv").write_text("n\n1\n")
    for name in ("o.jsonl", "o.csv"):
        earmark("match", "s.jsonl", "e.csv", "-o", name)
    assert json.loads((tmp_path / "o.jsonl").read_text())["subscription"] == 'ключ "☃"'
    assert 'ключ ""☃""' in (tmp_path / "o.csv").read_text()
