"""Errors: facts in fields, and one message made of them."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import earmark
from earmark import (
    AttributeTypeError,
    EarmarkError,
    EventError,
    Interval,
    Matcher,
    Predicate,
    Reject,
    SubscriptionError,
)
from earmark.cli.search import EventSearch, Rejects
from earmark.errors import MOST_LISTED, Fields, refuse
from earmark.tabular.source import source_of
from earmark.tabular.subscriptions import read_subscriptions

ROOT = Path(earmark.__file__).parent
NAMES = tuple(Fields.__annotations__)


def raised(call: Callable[[], object]) -> EarmarkError:
    with pytest.raises(EarmarkError) as caught:
        call()
    return caught.value


def fields(problem: EarmarkError) -> dict[str, Any]:
    """The fields that are set, but for the reason."""
    return {name: value for name in NAMES if (value := getattr(problem, name)) not in (None, ())}


def book(*conditions: str, **options: Any) -> Matcher:
    matcher = Matcher("scan", **options)
    matcher.add_many([(f"s{i}", condition) for i, condition in enumerate(conditions)])
    return matcher


# --- the message ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "wrong"),
        ({"row": 7}, "row 7: wrong"),
        ({"id": "x"}, "subscription 'x': wrong"),
        ({"row": 7, "id": 5}, "row 7, subscription 5: wrong"),
        ({"event": 0}, "event 0: wrong"),
        ({"attribute": "age"}, "wrong"),
        ({"text": "age > 'x'"}, "age > 'x': wrong"),
        ({"id": "x", "text": "age > 'x'"}, "subscription 'x': age > 'x': wrong"),
        ({"condition": "a ="}, "condition 'a =': wrong"),
        ({"condition": "a = b", "text": "b", "start": 4, "end": 5}, "condition 'a = b' at 'b': wrong"),
        ({"source": "'s.csv'"}, "'s.csv': wrong"),
        ({"source": "'s.parquet'", "row": 3, "id": "x"}, "'s.parquet', row 3, subscription 'x': wrong"),
        ({"source": "'s.csv'", "row": 3, "line": 5, "id": "x"}, "'s.csv', line 5, subscription 'x': wrong"),
        ({"source": "'e.csv'", "row": 3, "event": 3}, "'e.csv', row 3: wrong"),
        ({"id": 10**100}, "subscription an integer of 333 bits: wrong"),
        ({"id": "x" * 200}, f"subscription '{'x' * 99}…: wrong"),
        ({"condition": "x" * 300}, f"condition '{'x' * 200}…': wrong"),
    ],
)
def test_the_message_is_made_of_the_fields(given: Any, message: str) -> None:
    for problem in (EarmarkError("wrong", **given), EarmarkError("wrong").at(**given)):
        assert str(problem) == message
        assert problem.reason == "wrong"
        assert fields(problem) == given


def test_every_field_is_none_or_empty() -> None:
    problem = EarmarkError("wrong")
    assert [getattr(problem, name) for name in NAMES] == [None] * (len(NAMES) - 1) + [()]
    assert str(EarmarkError()) == ""


def test_an_unknown_field_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="no field rows"):
        EarmarkError("wrong", rows=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no field rows"):
        EarmarkError("wrong").at(rows=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [EarmarkError, SubscriptionError, EventError, AttributeTypeError, earmark.TableError])
def test_another_place_is_the_same_error_elsewhere(kind: type[EarmarkError]) -> None:
    first = kind("wrong", row=1, attribute="a")
    second = first.at(row=2, id="x")
    assert type(second) is kind
    assert fields(first) == {"row": 1, "attribute": "a"}
    assert fields(second) == {"row": 2, "attribute": "a", "id": "x"}
    assert fields(second.at(row=None)) == {"attribute": "a", "id": "x"}


@pytest.mark.parametrize("carried", [copy.copy, copy.deepcopy, lambda problem: pickle.loads(pickle.dumps(problem))])
def test_fields_survive_a_journey(carried: Callable[[EarmarkError], EarmarkError]) -> None:
    inner = AttributeTypeError("wrong", row=1, id="x", attribute="a", text="a > 1", start=0, end=5)
    for problem in (inner, SubscriptionError("2 were refused", problems=(inner, inner.at(row=2)))):
        again = carried(problem)
        assert type(again) is type(problem)
        assert (str(again), again.reason, again.args) == (str(problem), problem.reason, problem.args)
        assert {**fields(again), "problems": ()} == {**fields(problem), "problems": ()}
        assert list(map(fields, again.problems)) == list(map(fields, problem.problems))


def test_several_problems_are_one_error() -> None:
    refuse([])
    one = SubscriptionError("wrong", row=1)
    assert raised(lambda: refuse([one])) is one
    many = [one.at(row=row) for row in range(MOST_LISTED + 2)]
    problem = raised(lambda: refuse(many))
    assert problem.problems == tuple(many)
    assert problem.reason == "22 subscriptions were refused"
    assert str(problem) == f"{problem.reason}: {'; '.join(map(str, many[:MOST_LISTED]))}; and 2 more"
    located = problem.at(source="'s.csv'", problems=tuple(each.at(source="'s.csv'") for each in many[:2]))
    assert str(located) == f"'s.csv': {problem.reason}: row 0: wrong; row 1: wrong"


# --- what users meet -----------------------------------------------------------------------------------------


def typed() -> Matcher:
    return Matcher("scan", attributes={"age": "integer", "day": "date"})


SUBSCRIPTIONS: dict[str, tuple[Callable[[], object], dict[str, Any], str]] = {
    "a parse error": (
        lambda: typed().add("x", "age > 3 4"),
        {"id": "x", "condition": "age > 3 4", "text": "4", "start": 8, "end": 9},
        "subscription 'x': condition 'age > 3 4' at '4': expected AND, OR or the end after '3', got '4'",
    ),
    "the end of a text": (
        lambda: typed().add("x", "age >"),
        {"id": "x", "condition": "age >", "start": 5, "end": 5},
        "subscription 'x': condition 'age >': expected a value after '>', got the end of the condition",
    ),
    "a literal": (
        lambda: typed().add("x", "day = DATE '2024-02-30'"),
        {"id": "x", "condition": "day = DATE '2024-02-30'", "text": "'2024-02-30'", "start": 11, "end": 23},
        "subscription 'x': condition \"day = DATE '2024-02-30'\" at \"'2024-02-30'\": "
        "'2024-02-30' is not a date; write it as '2024-02-29'",
    ),
    "a parameter": (
        lambda: typed().add("x", "age = :age", params={"aeg": 1}),
        {"id": "x", "condition": "age = :age", "text": ":age", "start": 6, "end": 10},
        "subscription 'x': condition 'age = :age' at ':age': params have no value for :age: did you mean 'aeg'?",
    ),
    "an unknown operator in a text": (
        lambda: typed().add("x", "age ~ 3"),
        {"id": "x", "condition": "age ~ 3", "text": "~ 3", "start": 4, "end": 5},
        "subscription 'x': condition 'age ~ 3' at '~ 3': "
        "regular expressions are not part of the language: use LIKE with a prefix, as in LIKE 'prefix%'",
    ),
    "an unknown operator in an object": (
        lambda: Predicate("age", "~", 3),
        {"attribute": "age"},
        "'~' on 'age' is not an operator; the operators are "
        "!=, <, <=, <=>, =, >, >=, BETWEEN, IN, NOT IN, LIKE, IS NULL, IS NOT NULL",
    ),
    "a type clash with a declaration": (
        lambda: typed().add("x", "age = 'old'"),
        {"id": "x", "attribute": "age", "text": "age = 'old'"},
        "subscription 'x': age = 'old': expected an integer for 'age' (declared), got 'old'",
    ),
    "a type clash with another condition": (
        lambda: book("n > 3", "n = 'x'"),
        {"row": 1, "id": "s1", "attribute": "n", "text": "n = 'x'"},
        "row 1, subscription 's1': n = 'x': expected a number for 'n' "
        "(first used so by subscription 's0': n > 3), got 'x'",
    ),
    "a cast": (
        lambda: typed().add("x", "day = 'soon'"),
        {"id": "x", "attribute": "day", "text": "day = 'soon'"},
        "subscription 'x': day = 'soon': 'soon' is not a date; write it as '2024-02-29'",
    ),
    "values of two types": (
        lambda: Matcher().add("x", "n IN (1, 'x')"),
        {"id": "x", "attribute": "n", "text": "n IN (1, 'x')"},
        "subscription 'x': n IN (1, 'x'): expected values of one type, got 1 and 'x'",
    ),
    "an attribute that is not declared": (
        lambda: Matcher(attributes={"age": "integer"}, strict=True).add("x", "agee = 1"),
        {"id": "x", "attribute": "agee"},
        "subscription 'x': attribute 'agee' is not declared; did you mean 'age'?",
    ),
    "a bad id": (
        lambda: Matcher().add(1.5, "a > 1"),  # type: ignore[arg-type]
        {"id": 1.5},
        "subscription 1.5: expected a string or an integer as id, got 1.5",
    ),
    "an empty id": (
        lambda: Matcher().add_many([("", "a > 1")]),
        {"row": 0, "id": ""},
        "row 0, subscription '': expected an id of 1 to 10,000 characters, got 0",
    ),
    "no id": (
        lambda: Matcher().add_many([{"id": None, "condition": "a > 1"}]),
        {"row": 0},
        "row 0: expected a string or an integer as id, got None",
    ),
    "an id in use": (
        lambda: book("a > 1").add("s0", "a > 1"),
        {"id": "s0"},
        "subscription 's0': the id is already in use; use update() to change it",
    ),
    "an id given twice": (
        lambda: Matcher().add_many([("x", "a > 1"), ("x", "a > 2")]),
        {"row": 1, "id": "x"},
        "row 1, subscription 'x': the id is given twice",
    ),
    "an id of another kind": (
        lambda: book("a > 1").add(5, "a > 1"),
        {"id": 5},
        "subscription 5: expected a string as id, as the other ids are",
    ),
    "a bad score": (
        lambda: Matcher().add("x", "a > 1", score=float("inf")),
        {"id": "x"},
        "subscription 'x': score must be finite, got inf",
    ),
    "a bad weight": (
        lambda: Matcher().add("x", "a > 1", weights={"a": -1}),
        {"id": "x", "attribute": "a"},
        "subscription 'x': the weight of 'a' must be finite and not negative, got -1",
    ),
    "a weight of another attribute": (
        lambda: Matcher().add("x", "a > 1", weights={"b": 1}),
        {"id": "x", "attribute": "b"},
        "subscription 'x': weights refer to 'b', which the condition does not use (it uses a)",
    ),
    "bad tags": (
        lambda: Matcher().add("x", "a > 1", tags={"tenant": 5}),  # type: ignore[dict-item]
        {"id": "x"},
        "subscription 'x': tags must map strings to strings, got 5",
    ),
    "not a subscription": (
        lambda: Matcher().add_many([("x", "a > 1"), 5]),
        {"row": 1},
        "row 1: expected an (id, condition) pair or a mapping as a subscription, got 5",
    ),
    "an update": (
        lambda: book("a > 1").update("s0", score=float("nan")),
        {"id": "s0"},
        "subscription 's0': score must be finite, got nan",
    ),
    "a row to remove": (
        lambda: book("a > 1").remove_many(["s0", "s7"]),
        {"row": 1},
        "row 1: there is no subscription 's7' to remove",
    ),
}


@pytest.mark.parametrize("name", SUBSCRIPTIONS)
def test_subscriptions(name: str) -> None:
    call, expected, message = SUBSCRIPTIONS[name]
    problem = raised(call)
    assert fields(problem) == expected
    assert str(problem) == message
    assert problem.reason and message.endswith(problem.reason)


def test_all_rows_of_a_batch() -> None:
    rows = [("a", "n > 1"), ("b", "n >"), ("c", "n = 'x'"), {"id": "d", "condition": "n > 1", "score": "high"}]
    problem = raised(lambda: Matcher().add_many(rows))
    assert [(one.row, one.id, one.attribute, one.text) for one in problem.problems] == [
        (1, "b", None, None),
        (2, "c", "n", "n = 'x'"),
        (3, "d", None, None),
    ]
    assert str(problem) == f"3 subscriptions were refused: {'; '.join(map(str, problem.problems))}"
    problem = raised(lambda: Matcher().add_many([("a", "n > 1"), ("a", "n > 1"), ("a", "n > 1")]))
    assert [(one.row, one.id) for one in problem.problems] == [(1, "a"), (2, "a")]


def test_a_type_that_conditions_disagree_with() -> None:
    problem = raised(lambda: book("n > 3", "n = 5").retype("n", "string"))
    assert problem.attribute == "n"
    assert [one.id for one in problem.problems] == ["s0", "s1"]
    assert str(problem).startswith(
        "attribute 'n' cannot become string: 2 subscriptions were refused: subscription 's0': n > 3: expected a string"
    )


EVENTS: dict[str, tuple[Callable[[Matcher], object], dict[str, Any], str]] = {
    "one event": (
        lambda m: m.match({"age": "old"}),
        {"attribute": "age"},
        "expected an integer for 'age' (declared), got 'old'",
    ),
    "an event of a batch": (
        lambda m: m.match_many([{}, {"age": "old"}]),
        {"event": 1, "attribute": "age"},
        "event 1: expected an integer for 'age' (declared), got 'old'",
    ),
    "an event far into a stream": (
        lambda m: m.match_reader(iter([{}] * 9_000 + [{"age": "old"}])).read_all(),
        {"event": 9_000, "attribute": "age"},
        "event 9000: expected an integer for 'age' (declared), got 'old'",
    ),
    "not an event": (
        lambda m: m.match_many([{}, 5]),
        {"event": 1},
        "event 1: expected a mapping of attribute names to values, got a int",
    ),
    "a value that does not fit": (
        lambda m: m.match_many([{"age": 2**63}]),
        {"event": 0, "attribute": "age"},
        "event 0: expected a 64-bit integer for 'age', got 9223372036854775808",
    ),
    "a date": (
        lambda m: m.match_many([{"day": "soon"}]),
        {"event": 0, "attribute": "day"},
        "event 0: expected a date such as '2024-02-29' for 'day', got 'soon'",
    ),
    "an interval": (
        lambda m: m.match_many([{"age": Interval(5, 4)}]),
        {"event": 0, "attribute": "age"},
        "event 0: the interval of 'age' is empty: 5 is above 4",
    ),
    "a weight of an event": (
        lambda m: m.top_k_many([{"age": 1}] * 2, weights=[None, {"age": -1}]),
        {"event": 1, "attribute": "age"},
        "event 1: the weight of 'age' must be finite and not negative, got -1",
    ),
    "a cell of a frame": (
        lambda m: m.match_many(pa.table({"age": [1, None, 2.5]})),
        {"event": 2, "attribute": "age"},
        "event 2: expected an integer for 'age' (declared), got 2.5",
    ),
    "a string in a frame": (
        lambda m: m.match_many(pa.table({"day": ["2024-01-01", "soon"]})),
        {"event": 1, "attribute": "day"},
        "event 1: expected a date such as '2024-02-29' for 'day', got 'soon'",
    ),
    "a column of lists": (
        lambda m: m.match_many(pa.table({"age": [None, [1]]})),
        {"event": 1, "attribute": "age"},
        "event 1: expected an integer for 'age' (declared), got a column of type list<item: int64>",
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_events(name: str) -> None:
    call, expected, message = EVENTS[name]
    matcher = typed()
    matcher.add("x", "age > 3 AND day IS NOT NULL")
    problem = raised(lambda: call(matcher))
    assert isinstance(problem, EventError)
    assert fields(problem) == expected
    assert str(problem) == message.replace("item:", f"{pa.list_(pa.int64()).value_field.name}:")


@pytest.mark.parametrize("frame", [False, True])
def test_rejects_have_the_fields_of_errors(frame: bool) -> None:
    matcher = typed()
    matcher.add("x", "age > 3 AND day IS NOT NULL")
    rows: list[Any] = [{"age": 1, "day": "2024-01-01"}, {"age": 2, "day": "soon"}]
    events = pa.table({name: [row[name] for row in rows] for name in rows[0]}) if frame else rows
    rejects: list[Reject] = []
    matcher.match_many(events, on_error="null", rejects=rejects)
    problem = raised(lambda: matcher.match_many(events))
    assert rejects == [Reject.of(problem, 1)] == [Reject(1, problem.attribute, problem.reason)]
    assert problem.event == rejects[0].event


# --- ready-made columns --------------------------------------------------------------------------------------


def refused(frame: pa.Table, **attributes: str) -> list[tuple[Any, ...]]:
    """Row, id, attribute and reason of each problem of a frame of bounds; the other rows are taken."""
    matcher = Matcher("scan", attributes=attributes)
    problem = raised(lambda: matcher.add_many(frame))
    problems = problem.problems or (problem,)
    rows = {one.row for one in problems}
    good = [row for row in range(frame.num_rows) if row not in rows]
    assert matcher.add_many(frame.take(good)) == len(good) > 0
    return [(one.row, one.id, one.attribute, one.reason) for one in problems]


def test_all_rows_of_columns_in_one_pass() -> None:
    frame = pa.table(
        {
            "id": ["a", "b", "", "d", "e", "f", "a", "h"],
            "n_lo": [1, 2, 3, 4, 5, 6, 7, 8],
            "n_hi": [9] * 8,
            "score": [0.0, float("inf"), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            "tags": pa.array([None, None, None, [("t", None)], None, None, None, None], pa.map_("string", "string")),
            "weights": pa.array(
                [None, None, None, None, [("n", -1.0)], [("m", 1.0)], None, None], pa.map_("string", "float64")
            ),
        }
    )
    assert refused(frame) == [
        (1, "b", None, "score must be finite, got inf"),
        (2, "", None, "expected an id of 1 to 10,000 characters, got 0"),
        (3, "d", None, "tags must map strings to strings, got None"),
        (4, "e", "n", "the weight of 'n' must be finite and not negative, got -1.0"),
        (5, "f", "m", "weights refer to 'm', but the frame has no bounds for it"),
        (6, "a", None, "the id is given twice"),
    ]


def test_an_id_is_free_where_its_first_row_is_wrong() -> None:
    frame = pa.table({"id": [1, 1, 1], "n_lo": [1, 2, 3], "n_hi": [9] * 3, "score": [float("nan"), 0.0, 0.0]})
    assert [(row, reason[:6]) for row, _, _, reason in refused(frame)] == [(0, "score "), (2, "the id")]


def test_all_rows_of_ranges_in_one_pass() -> None:
    def entry(name: str | None, weight: float = 1.0) -> dict[str, Any]:
        return {"attribute": name, "lo": 1, "hi": 2, "weight": weight}

    ranges = [[entry("a")], None, [entry("a"), entry(None)], [entry("b", -2.0)], [entry("")], [entry("c"), entry("")]]
    assert refused(pa.table({"id": range(6), "ranges": ranges})) == [
        (1, 1, None, "'ranges' is NULL"),
        (2, 2, None, "an entry of 'ranges' has no attribute"),
        (3, 3, "b", "the weight of 'b' must be finite and not negative, got -2.0"),
        (4, 4, "", "expected an attribute's name of 1 to 1000 characters, got ''"),
        (5, 5, "", "expected an attribute's name of 1 to 1000 characters, got ''"),
    ]


def test_rows_whose_type_is_another() -> None:
    bounds = {"n_lo": ["a", None, "c"], "n_hi": ["x", None, None], "m_lo": [1] * 3, "m_hi": [2] * 3}
    reason = "expected an integer for 'n' (declared), got {!r}"
    assert refused(pa.table({"id": [1, 2, 3], **bounds}), n="integer") == [
        (0, 1, "n", reason.format("a")),
        (2, 3, "n", reason.format("c")),
    ]


def test_the_first_good_row_says_the_type_of_two() -> None:
    """Lower bounds are numbers, upper bounds strings: each row is right or wrong as if it had come after the others."""
    frame = pa.table(
        {
            "id": range(6),
            "n_lo": [1, None, None, 4, 5, None],
            "n_hi": ["a", "b", "c", None, "e", None],
            "score": [0.0, float("inf"), 0.0, 0.0, 0.0, 0.0],
        }
    )
    found = refused(frame)
    assert [row for row, *_ in found] == [0, 1, 3, 4]
    assert found[0][3] == "expected a number for 'n' (first used so by a column of bounds, 1), got 'a'"
    assert found[2][3] == "expected a string for 'n' (first used so by a column of bounds, 'c'), got 4"


def test_nanoseconds() -> None:
    moments = pa.array([1000, 1001, None, 2002], pa.timestamp("ns"))
    frame = pa.table({"id": range(4), "t_lo": moments, "t_hi": pa.nulls(4, pa.timestamp("ns"))})
    found = refused(frame)
    assert [row for row, *_ in found] == [1, 3]
    assert found[0][3] == "expected bounds without nanoseconds, got 1970-01-01T00:00:00.000001001"


def test_a_column_that_cannot_be_read_is_a_problem_of_no_row() -> None:
    frame = pa.table({"id": [1, 2], "n_lo": [1, 2], "n_hi": [3, 4], "score": ["x", "y"]})
    problem = raised(lambda: Matcher().add_many(frame))
    assert fields(problem) == {}
    assert str(problem) == "expected numbers in the column 'score', got the type string"


# --- files ---------------------------------------------------------------------------------------------------


def test_a_line_of_a_file_of_subscriptions(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("id,condition\nx,\"a > 1\nOR b > 2\"\n\ny,a >\nz,a = 'z'\n")
    file = read_subscriptions(source_of(path), {})
    problem = file.located(raised(lambda: Matcher().add_many(file.rows)))
    assert problem.source == repr(str(path))
    assert [(one.source, one.line, one.row, one.id) for one in problem.problems] == [
        (repr(str(path)), 5, 1, "y"),
        (repr(str(path)), 6, 2, "z"),
    ]
    assert str(problem).startswith(f"'{path}': 2 subscriptions were refused: line 5, subscription 'y': condition 'a >'")
    assert str(problem.problems[1]).startswith(f"'{path}', line 6, subscription 'z': a = 'z': ")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("id,score\n1,0\n2,high\n", 3, "expected a float for 'score', got 'high'"),
        ("id,tags\n1,\n\n2,{\n", 4, "expected JSON for 'tags', got '{'"),
        ("id,score\n1,0\n2\n", 3, "expected 2 columns, got 1: 2"),
        ('id,score\n1,0\n2,"\n', 3, "a quote opens here and is never closed"),
    ],
)
def test_a_line_of_csv(tmp_path: Path, text: str, line: int, reason: str) -> None:
    path = tmp_path / "s.csv"
    path.write_text(text)
    problem = raised(lambda: read_subscriptions(source_of(path), {}))
    assert (problem.source, problem.line, problem.reason) == (repr(str(path)), line, reason)
    assert str(problem) == f"'{path}', line {line}: {reason}"


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_bytes(b"id,condition\n1,a\n\n2,\xff\n")
    problem = raised(lambda: read_subscriptions(source_of(path), {}))
    assert (problem.line, problem.reason) == (4, "expected UTF-8 text, got byte 0xff")


@pytest.mark.parametrize(
    ("name", "text", "line", "attribute"),
    [
        ("e.csv", "n\n1\n\nx\n", 4, "n"),
        ("e.jsonl", '{"n": 1}\n\n{"n": "x"}\n', 3, "n"),
        ("e.jsonl", '{"n": 1}\n\n[1]\n', 3, None),
    ],
)
def test_a_line_of_a_file_of_events(tmp_path: Path, name: str, text: str, line: int, attribute: str | None) -> None:
    """The search is asked once: the error says which event it is."""
    path = tmp_path / name
    path.write_text(text)
    asked: list[int] = []

    def search(matcher: Matcher, rows: Any, **unread: Any) -> pa.Table:
        asked.append(len(rows))
        return matcher.match_many(rows, **unread)

    searched = EventSearch(book("n > 1"), source_of(path), search, None, Rejects())
    problem = raised(lambda: list(searched.results(shown=False)))
    assert (problem.source, problem.line, problem.attribute) == (repr(str(path)), line, attribute)
    assert str(problem) == f"'{path}', line {line}: {problem.reason}"
    assert len(asked) <= 1


# --- nobody reads messages back ------------------------------------------------------------------------------

OURS = {"EarmarkError", "SubscriptionError", "EventError", "AttributeTypeError", "TooManyAnswers", "TableError"}
READS = {"match", "search", "fullmatch", "findall", "split", "sub", "finditer"}


def parents(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def catches_ours(handler: ast.ExceptHandler) -> bool:
    caught = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else set()
    return bool(caught & {*OURS, "Exception", "BaseException"})


def message_reads(source: str) -> list[int]:
    """The lines in which the message of an error of ours is taken apart, or put into another message of ours."""
    tree = ast.parse(source)
    above = parents(tree)
    found: list[int] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("removeprefix", "removesuffix"):
            call = above[node]
            texts = [each.value for each in ast.walk(call) if isinstance(each, ast.Constant)]
            if any(isinstance(text, str) and text.endswith(": ") for text in texts):
                found.append(node.lineno)
        if isinstance(node, ast.ExceptHandler) and node.name and catches_ours(node):
            found += _reads_of(node.name, node, above)
    return sorted(set(found))


def _reads_of(name: str, handler: ast.ExceptHandler, above: dict[ast.AST, ast.AST]) -> list[int]:
    found = []
    for node in ast.walk(handler):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str"):
            continue
        if not (len(node.args) == 1 and isinstance(node.args[0], ast.Name) and node.args[0].id == name):
            continue
        user = above[node]
        if isinstance(user, ast.Subscript) and isinstance(user.slice, ast.Slice) and user.slice.lower is None:
            continue  # only shortened
        is_read = isinstance(user, ast.Call) and isinstance(user.func, ast.Attribute) and user.func.attr in READS
        if isinstance(user, ast.Attribute | ast.Subscript | ast.Compare | ast.Assign) or is_read:
            found.append(node.lineno)
    return found


@pytest.mark.parametrize(
    "code",
    [
        'reason = str(problem).removeprefix("row 0: ")',
        "text = str(problem)",
        "found = ROW.match(str(problem))",
        "reason = str(problem)[3:]",
        "if 'row' in str(problem): pass",
    ],
)
def test_the_scan_finds_messages_that_are_read(code: str) -> None:
    assert message_reads(f"try:\n    pass\nexcept EarmarkError as problem:\n    {code}\n") == [4]
    assert message_reads(f"try:\n    pass\nexcept (OSError, SubscriptionError) as problem:\n    {code}\n") == [4]


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_message_is_read_back(path: Path) -> None:
    assert message_reads(path.read_text("utf-8")) == []
