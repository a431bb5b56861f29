"""The oracle itself: histories written by hand, and what it says about them."""

from __future__ import annotations

from earmark.overlay.simulation.content import content_of_rows
from earmark.overlay.simulation.history import History
from earmark.overlay.simulation.oracle import Verdict, judge
from earmark.overlay.simulation.plan import Plan
from earmark.overlay.simulation.topology import topology_of


def history() -> History:
    """Brokers 0 ─ 1 ─ 2 with a client each: 0 wants x > 0 and x > 5, 2 wants x > 0, 1 publishes."""
    content = content_of_rows(["x > 0", "x > 5", "x > 0"], [{"x": 3}, {"x": 7}, {"x": -1}])
    plan = Plan(topology_of("line:3"), content, [0, 1, 2], [0, 0, 2], [1, 1, 1], [])
    return History(plan)


def subscribed() -> History:
    made = history()
    for place, (client, number) in enumerate([(0, 1), (0, 2), (2, 1)]):
        made.ask(client, number, place, at=place, is_withdrawal=False)
    made.confirm(0, 2, at=10)
    made.confirm(2, 1, at=12)
    return made


def send(made: History, place: int, *to: tuple[int, list[int]]) -> None:
    """A publication that goes to both sides, and notifications."""
    made.publish(place, broker=1, at=100)
    made.hop(place, 1, 0)
    made.hop(place, 1, 2)
    for client, ids in to:
        made.notify(place, client, ids, at=120)


def counts(verdict: Verdict) -> tuple[int, int, int]:
    return verdict.missing, verdict.wrong, verdict.twice


def test_exact() -> None:
    made = subscribed()
    send(made, 0, (0, [0]), (2, [2]))
    send(made, 1, (0, [0, 1]), (2, [2]))
    send(made, 2)
    verdict = judge(made)
    assert verdict.is_exact and counts(verdict) == (0, 0, 0)
    assert (verdict.publications, verdict.expected, verdict.delivered, verdict.notifications) == (3, 5, 5, 4)
    assert verdict.arrivals_by_hop == {1: 6} and verdict.false_by_hop == {1: 2}
    assert list(made.waits) == [10, 9, 10]


def test_missing_wrong_and_twice() -> None:
    made = subscribed()
    send(made, 0, (0, [0]), (0, [1]))  # twice to client 0; 1 does not match; client 2 is missing
    send(made, 1, (0, [0]), (2, [2, 0]))  # 1 is missing; 0 is not of client 2
    send(made, 2, (2, [9]))  # nothing matches, and nobody has 9
    verdict = judge(made)
    assert counts(verdict) == (2, 3, 1) and not verdict.is_exact
    assert len(verdict.examples) == 5


def test_an_id_twice_in_one_notification_is_wrong() -> None:
    made = subscribed()
    send(made, 0, (0, [0, 0]), (2, [2]))
    assert counts(judge(made)) == (0, 1, 0)


def test_between_asked_and_in_force_either_is_right() -> None:
    for to in ([], [(0, [0])]):
        made = history()
        made.ask(0, 1, 0, at=0, is_withdrawal=False)
        send(made, 0, *to)
        made.confirm(0, 1, at=300)
        assert judge(made).is_exact
    late = history()
    send(late, 0)
    late.ask(0, 1, 0, at=0, is_withdrawal=False)
    assert judge(late).is_exact
    late.notified_publication.append(0)  # without being seen again
    for column, value in (("client", 0), ("at", 0), ("count", 1), ("ids", 0)):
        getattr(late, f"notified_{column}").append(value)
    assert counts(judge(late)) == (0, 1, 0)


def test_between_withdrawn_and_gone_either_is_right() -> None:
    for to in ([(2, [2])], [(0, [0]), (2, [2])]):
        made = subscribed()
        made.ask(0, 3, 0, at=0, is_withdrawal=True)
        send(made, 0, *to)
        assert judge(made).is_exact
        made.confirm(0, 3, at=200)
        assert judge(made).is_exact
    made = subscribed()
    made.ask(0, 3, 0, at=0, is_withdrawal=True)
    made.confirm(0, 3, at=200)
    send(made, 0, (0, [0]), (2, [2]))
    assert counts(judge(made)) == (0, 1, 0)


def test_what_was_inside_a_crashed_broker_is_counted() -> None:
    made = subscribed()
    send(made, 0, (0, [0]))
    assert counts(judge(made)) == (1, 0, 0)
    made.excused.add((0, 1, 0))  # on its way to the other side
    assert counts(judge(made)) == (1, 0, 0)
    made.excused.add((0, 1, 1))  # for clients of broker 1
    assert counts(judge(made)) == (1, 0, 0)
    made.excused.add((0, 2, 2))
    verdict = judge(made)
    assert verdict.is_exact and verdict.lost_in_crashes == 1


def test_wrong_content_is_wrong() -> None:
    made = subscribed()
    made.wrong_content += 1
    assert counts(judge(made)) == (0, 1, 0)
