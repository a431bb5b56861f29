"""What users see of covering: names that can be imported, readable reprs, HTML for notebooks, and brokers by id."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow
import pytest

import earmark
from earmark import EarmarkError, Matcher, cover
from earmark.cover import (
    Change,
    CompleteGraph,
    Projection,
    RangeSet,
    RelationGraph,
    StrictPoset,
    Subsumption,
    Verdict,
    merge,
    summarize,
)

GRAPHS = [RelationGraph, CompleteGraph, StrictPoset]
HOSTILE = "city = '<script>alert(1)</script>' AND x > 1"


def classes_in(hint: Any) -> Iterator[type]:
    """The classes that a return annotation names, also inside lists, tuples and unions."""
    if typing.get_args(hint):
        for part in typing.get_args(hint):
            yield from classes_in(part)
    elif isinstance(hint, type):
        yield hint


def public_classes() -> list[type]:
    return [Matcher, *(value for name in cover._HOMES if isinstance(value := getattr(cover, name), type))]


def returned() -> list[tuple[str, type]]:
    """Every class of ours that a public function or method returns."""
    found = []
    for owner in (*public_classes(), cover.merge, cover.summarize, cover.subsumed):
        members = inspect.getmembers(owner) if isinstance(owner, type) else [(owner.__name__, owner)]
        for name, member in members:
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if name.startswith("_") or not isinstance(function, types.FunctionType):
                continue
            if not function.__module__.startswith("earmark"):
                continue
            module = vars(inspect.getmodule(function) or earmark)
            names = {**module, "pa": pyarrow, "Audit": cover.Audit, "CoverIndex": cover.CoverIndex}
            hint = eval(function.__annotations__["return"], names)
            found += [(f"{owner.__name__}.{name}", kind) for kind in classes_in(hint)]
    return [(name, kind) for name, kind in found if kind.__module__.startswith("earmark")]


INNER = {"SegmentArrays", "Schema", "Space", "Version"}
"""What the array level returns, for those who work with slots."""


def test_what_methods_return_can_be_imported() -> None:
    seen = returned()
    assert len({kind for _, kind in seen}) > 10
    for name, kind in seen:
        if kind.__name__ in INNER:
            continue
        home = next((home for home in (earmark, cover) if getattr(home, kind.__name__, None) is kind), None)
        assert home is not None, f"{name} returns {kind.__name__}, which cannot be imported"
        assert kind.__repr__ is not object.__repr__, f"{kind.__name__} has no repr"


def test_all_names_can_be_listed_and_imported() -> None:
    assert {"RelationGraph", "CoverIndex", "merge", "Audit", "RangeChange"} <= set(dir(cover))
    for name in cover._HOMES:
        value = getattr(cover, name)
        assert value.__doc__ and value.__module__.startswith("earmark.cover")
    with pytest.raises(AttributeError, match="no attribute 'Told'"):
        _ = cover.Told


def book() -> Matcher:
    matcher = Matcher()
    matcher.add_many([("a", "x > 1"), ("b", "x > 2"), ("c", "x BETWEEN 5 AND 9 AND y = 1"), ("h", HOSTILE)])
    return matcher


def test_reprs() -> None:
    matcher = book()
    past = [{"x": i, "y": i % 3} for i in range(50)]
    for value, said in (
        (cover.CoverIndex.of(matcher), "<CoverIndex 'auto': 4 subscriptions>"),
        (RelationGraph.of(matcher), "<RelationGraph: 4 subscriptions, 1 forwarded, 3 edges>"),
        (CompleteGraph(), "<CompleteGraph: 0 subscriptions, 0 forwarded, 0 edges>"),
        (Projection.of(matcher), "<Projection: "),
        (Subsumption.of(matcher), "<Subsumption: 4 subscriptions, "),
        (merge(matcher, past, budget=0), "<Merged: 4 subscriptions into "),
        (summarize(matcher, past, budget=0), "<Summary: 4 subscriptions as "),
        (cover.RangeSummary.from_arrow(summarize(matcher, past, 0).to_arrow()), "<RangeSummary: "),
        (RangeSet([(1, 2)]), "<RangeSet: 1 range>"),
        (RangeSet([(1, 2), (5, 9)]).ranges(), "Ranges((1, 2), (5, 9))"),
        (RangeSet((2 * i, 2 * i) for i in range(20)).ranges(), "Ranges((0, 0), (2, 2), "),
        (matcher.audit(), "<Audit of 4 subscriptions: 3 covered>"),
    ):
        assert repr(value).startswith(said), repr(value)
        assert len(repr(value)) < 200


def test_html_escapes_what_users_wrote() -> None:
    matcher = book()
    matcher.add("<b>bold</b>", "x > 1")
    matcher.add("never", "x = 1 OR (s > '<i>' AND s < '<i>')")
    for value in (matcher.audit(), merge(matcher, [], budget=0), merge(Matcher(), [], budget=0), Matcher().audit()):
        page = value._repr_html_()
        assert page.startswith("<table><caption>") and page.endswith("</table>")
        for tag in ("<script", "<b>", "<i>"):
            assert tag not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in matcher.audit()._repr_html_()
    assert "&lt;i&gt;" in matcher.audit()._repr_html_()
    large = Matcher()
    large.add_many([(i, f"x = {i} AND y{i} = 1") for i in range(30)])
    page = merge(large, [], budget=0)._repr_html_()
    assert page.count("<tr>") == 22 and "… and 10 more" in page


# --- brokers by id -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GRAPHS)
def test_a_broker_by_id(kind: type[RelationGraph]) -> None:
    graph = kind()
    assert graph.subscribe("narrow", "age BETWEEN 30 AND 40") == Change(("narrow",))
    assert graph.subscribe("wide", "age > 20") == Change(("wide",))
    assert graph.subscribe("inside", "age = 35 AND city = 'Oslo'") == Change()
    assert graph.above("inside") <= {"narrow", "wide"} and len(graph) == 3 and "wide" in graph
    assert graph.unsubscribe("narrow").withdraw == ("narrow",)
    assert graph.unsubscribe("wide") == Change(("inside",), ("wide",))
    graph.check()
    withdrawing = kind("linear", withdraw=True)
    withdrawing.subscribe("narrow", "age = 30")
    assert withdrawing.subscribe("wide", "age > 20") == Change(("wide",), ("narrow",))
    withdrawing.check()


@pytest.mark.parametrize("kind", GRAPHS)
def test_a_graph_of_a_matcher_goes_on(kind: type[RelationGraph]) -> None:
    random, matcher = Random(3), Matcher()
    for i in range(60):
        low = random.randrange(40)
        matcher.add(f"s{i}", f"x BETWEEN {low} AND {low + random.randrange(12)}")
    graph = kind.of(matcher, "blocks")
    assert graph.forwarded == {id for id in matcher if not matcher.covered_by(id)}
    graph.check()
    told = set(graph.forwarded)
    for i in range(40):
        change = graph.unsubscribe(f"s{i}") if i % 3 else graph.subscribe(f"new {i}", f"x BETWEEN {i} AND 40")
        told = (told | set(change.forward)) - set(change.withdraw)
        assert told == graph.forwarded
    graph.check()
    assert len(matcher) == 60


def test_orders_of_arrival() -> None:
    """What an unsubscribe forwards comes in the order in which it was subscribed."""
    graph = RelationGraph("linear")
    graph.subscribe("all", "x > 0")
    names = [f"s{(7 * i) % 30}" for i in range(30)]
    for i, name in enumerate(names):
        graph.subscribe(name, f"x = {i + 1}")
    assert graph.unsubscribe("all") == Change(tuple(names), ("all",))


def test_subsumption_by_id() -> None:
    pairs = [("left", "x BETWEEN 0 AND 9"), ("right", "x BETWEEN 10 AND 19"), ("far", "x BETWEEN 100 AND 109")]
    matcher = Matcher(attributes={"x": "integer"})
    matcher.add_many(pairs)
    broker, neighbour = Subsumption.of(matcher), RangeSet()
    neighbour.add(broker.claimed.ranges())
    assert list(broker) == ["left", "right", "far"]
    assert broker.verdict("both", "x BETWEEN 5 AND 14").verdict is Verdict.SUBSUMED
    assert broker.verdict("both", "x BETWEEN 5 AND 14", exact=True).by == ("left", "right")
    assert broker.verdict("left", exact=True).witness == {"x": 0}
    assert broker.verdict("more", "x BETWEEN 5 AND 34").verdict is Verdict.NEEDED
    change = broker.subscribe("between", "x BETWEEN 50 AND 60 AND city = 'Oslo'")
    assert change.verdict is Verdict.NEEDED and change.forward
    neighbour.add(change.forward)
    assert "both" not in broker and len(broker) == 4
    neighbour.discard(broker.unsubscribe("between").withdraw)
    neighbour.discard(broker.unsubscribe_many(["left", "right", "far"]).withdraw)
    assert len(neighbour) == len(broker) == 0
    broker.check()


def test_subsumption_refuses_what_its_grid_cannot_hold() -> None:
    """A number beyond doubles changes the keys of x; nothing of the refused condition stays."""
    broker = Subsumption.of([("a", "x BETWEEN 0 AND 9"), ("b", "s = 'm'")])
    for call in (broker.subscribe, broker.verdict):
        with pytest.raises(EarmarkError, match="make it again"):
            call("wide", "x > 9007199254740993")
    assert list(broker) == ["a", "b"]
    assert broker.subscribe("c", "x = 3 AND s = 'q'").verdict is Verdict.SUBSUMED
    broker.check()
    broker.index.check()


def test_projection_by_name() -> None:
    random = Random(5)
    matcher = Matcher()
    for i in range(80):
        x, y = random.randrange(90), random.randrange(90)
        matcher.add(i, f"x BETWEEN {x} AND {x + 5} AND y BETWEEN {y} AND {y + 5} AND kind = 'k{i % 3}'")
    past = [{"x": random.randrange(100), "y": random.randrange(100), "kind": "k1"} for _ in range(300)]
    wanted = [bool(matcher.match(event)) for event in past]
    for projection in (
        Projection.of(matcher),
        Projection.of(matcher, attributes=["x", "y"], bits=5),
        Projection.of(matcher, axes=1, events=past),
        Projection.of([(id, matcher[id].condition) for id in matcher], events=past),
    ):
        sent = projection.sends(past)
        assert not any(right and not sends for right, sends in zip(wanted, sent, strict=True))
        assert projection.measured(matcher, past) == (300, int(sent.sum()), sum(wanted))


def test_mistakes_get_a_sentence() -> None:
    matcher = book()
    graph = RelationGraph.of(matcher)
    broker = Subsumption.of(matcher)
    for call, part in (
        (lambda: RelationGraph("b_tree"), "expected the name of a covering index"),
        (lambda: RelationGraph(7), "expected the name of an index, or a CoverIndex, got 7"),  # type: ignore[arg-type]
        (lambda: RelationGraph(k="1"), "for k, got '1'"),  # type: ignore[arg-type]
        (lambda: graph.subscribe("a", "x > 3"), "'a'"),
        (lambda: graph.subscribe("z", "x >"), "x >"),
        (lambda: graph.subscribe("z", None), "condition"),
        (lambda: graph.unsubscribe("z"), "'z' is not subscribed"),
        (lambda: graph.above("z"), "'z' is not subscribed"),
        (lambda: graph.below(["a"]), "expected a string or an integer as id"),  # type: ignore[arg-type]
        (lambda: broker.subscribe("a", "x > 3"), "'a'"),
        (lambda: broker.unsubscribe("z"), "'z' is not subscribed"),
        (lambda: broker.unsubscribe_many(["a", "a"]), "an id is given twice"),
        (lambda: broker.verdict("z"), "there is no subscription 'z'"),
        (lambda: Subsumption.of(matcher, gap=-1), "for gap, got -1"),
        (lambda: Subsumption.of(matcher, bits=99), "an integer from 1 to 16 for bits, got 99"),
        (lambda: Subsumption.of(matcher, axes=0), "for axes, got 0"),
        (lambda: Projection.of(matcher, attributes=["X"]), "there is no attribute 'X'"),
        (lambda: Projection.of(matcher, bits=0), "for bits, got 0"),
        (lambda: Projection.of(matcher, axes=True), "for axes, got True"),
        (lambda: Projection.of(matcher, bits=60), "use fewer bits or attributes"),
        (lambda: Projection.of(3), "expected a sequence or a frame of subscriptions, got 3"),
    ):
        with pytest.raises(EarmarkError) as problem:
            call()
        assert part in str(problem.value), problem.value
    graph.check()
    broker.check()
    assert len(graph) == len(broker) == 4
