"""Were the right clients notified, once each? One central scan decides; and which hops were for nothing?

All subscriptions of a network are matched with all its publications by one `Matcher("scan")`, which knows nothing of
brokers. For each publication and each subscription that it matches:

    must be delivered     in force before it was sent, and not withdrawn before it was seen for the last time
    may be delivered      asked for before it was seen for the last time, and not gone before it was sent
    must not              otherwise

A notification is right if all its ids are of subscriptions of this client that match and may be delivered, and if
there was none before for this publication. What was inside a broker that crashed is counted, not called missing.

**Useful hops.** A publication that arrives at a broker was of use there if somebody at this broker or beyond it wanted
it when it was sent. In a tree that is a count of brokers in an interval (`Topology.intervals`):

    A ─► B, B below A      matches inside B's interval
    A ─► B, B above A      matches outside A's interval

**Complexity**: O(matches log matches + publications × brokers), in chunks of publications.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from earmark.flat.arrays import I64
from earmark.matcher import Matcher
from earmark.overlay.simulation.history import NEVER, History, numbers

CHUNK = 500
"""Publications that are looked at together."""
EXAMPLES = 5


@dataclass
class Verdict:
    """What the central scan says."""

    publications: int = 0
    expected: int = 0
    """Pairs of a publication and a subscription that had to be delivered."""
    delivered: int = 0
    """Pairs that were delivered."""
    notifications: int = 0
    missing: int = 0
    wrong: int = 0
    twice: int = 0
    lost_in_crashes: int = 0
    """Pairs of publications that were inside a broker when it crashed."""
    examples: list[str] = field(default_factory=list)
    arrivals_by_hop: dict[int, int] = field(default_factory=dict)
    """Publications that arrived at brokers, by the number of links that they had travelled."""
    false_by_hop: dict[int, int] = field(default_factory=dict)
    """Those of them that nobody there or beyond wanted."""

    @property
    def is_exact(self) -> bool:
        """Whether every client was notified of what it had to be, of nothing else, and once."""
        return not (self.missing or self.wrong or self.twice)

    def note(self, text: str) -> None:
        """Keep a few examples."""
        if len(self.examples) < EXAMPLES:
            self.examples.append(text)


def judge(history: History) -> Verdict:
    """Compare a history with one central scan."""
    verdict = Verdict(publications=int((history.sent < NEVER).sum()), notifications=len(history.notified_publication))
    verdict.wrong += history.wrong_content
    if history.wrong_content:
        verdict.note("a notification had content that was not published")
    _find_twice(history, verdict)
    keys = _delivered_keys(history, verdict)
    matcher = _central(history)
    hops = _Hops(history)
    conditions = len(history.plan.content.conditions)
    for begin in range(0, len(history.sent), CHUNK):
        end = min(begin + CHUNK, len(history.sent))
        publication, subscription = _matches(matcher, history, begin, end)
        low, high = np.searchsorted(keys, [begin * conditions, end * conditions])
        _compare(history, verdict, publication, subscription, keys[low:high])
        hops.count(verdict, begin, end, publication, subscription)
    matcher.close()
    return verdict


def _central(history: History) -> Matcher:
    matcher = Matcher("scan", attributes=history.plan.content.types)
    rows = [{"id": place, "condition": text} for place, text in enumerate(history.plan.content.conditions)]
    matcher.add_many(rows, progress=False)
    return matcher


def _matches(matcher: Matcher, history: History, begin: int, end: int) -> tuple[I64, I64]:
    """Return pairs of publications and subscriptions that match, ascending."""
    events = history.plan.content.events[begin:end]
    batches = list(matcher.match_reader(list(events), on_error="null"))  # as brokers do beyond the first
    columns = []
    for name in ("event", "subscription"):
        parts = [np.asarray(batch.column(name)).astype(np.int64) for batch in batches]
        columns.append(np.concatenate(parts) if parts else np.zeros(0, np.int64))
    return columns[0] + begin, columns[1]


def _find_twice(history: History, verdict: Verdict) -> None:
    clients = len(history.plan.home)
    pairs = numbers(history.notified_publication) * clients + numbers(history.notified_client)
    pairs.sort()
    again = pairs[1:][np.diff(pairs) == 0]
    verdict.twice += len(again)
    for pair in again[:EXAMPLES].tolist():
        verdict.note(f"publication {pair // clients} was delivered more than once to client {pair % clients}")


def _delivered_keys(history: History, verdict: Verdict) -> I64:
    """Return publication × subscriptions + subscription of everything that was delivered to its owner, ascending."""
    subscription = numbers(history.notified_ids)
    count = numbers(history.notified_count)
    publication = np.repeat(numbers(history.notified_publication), count)
    client = np.repeat(numbers(history.notified_client), count)
    conditions = len(history.plan.content.conditions)
    known = (subscription >= 0) & (subscription < conditions)
    right = known.copy()
    right[known] = np.array(history.plan.owner, np.int64)[subscription[known]] == client[known]
    verdict.wrong += int((~right).sum())
    if not right.all():
        verdict.note("a notification had the id of a subscription of another client")
    keys: I64 = publication[right] * conditions + subscription[right]
    keys.sort()
    unique = keys[np.diff(keys, prepend=-1) > 0]
    verdict.wrong += len(keys) - len(unique)  # one id twice in a notification, or in two of them
    verdict.delivered = len(unique)
    return unique


def _compare(history: History, verdict: Verdict, publication: I64, subscription: I64, got: I64) -> None:
    conditions = len(history.plan.content.conditions)
    sent, seen = history.sent[publication], history.seen[publication]
    must = (history.in_force[subscription] < sent) & (history.withdrawn[subscription] > seen) & (sent < NEVER)
    may = (history.asked[subscription] < seen) & (history.gone[subscription] > sent)
    keys = publication * conditions + subscription
    order = np.argsort(keys, kind="stable")
    keys, must, may = keys[order], must[order], may[order]
    place = np.searchsorted(keys, got)
    matched = np.zeros(len(got), bool)
    inside = place < len(keys)
    matched[inside] = keys[place[inside]] == got[inside]
    matched[matched] = may[place[matched]]
    verdict.wrong += int((~matched).sum())
    for key in got[~matched][:EXAMPLES].tolist():
        verdict.note(f"publication {key // conditions} was delivered for subscription {key % conditions}")
    wanted = keys[must]
    verdict.expected += len(wanted)
    at = np.searchsorted(got, wanted)
    found = np.zeros(len(wanted), bool)
    inside = at < len(got)
    found[inside] = got[at[inside]] == wanted[inside]
    for key in wanted[~found].tolist():
        if _is_excused(history, *divmod(key, conditions)):
            verdict.lost_in_crashes += 1
        else:
            verdict.missing += 1
            verdict.note(f"publication {key // conditions} was not delivered for subscription {key % conditions}")


def _is_excused(history: History, publication: int, subscription: int) -> bool:
    """Whether the publication was inside a crashing broker on its way to the owner of the subscription."""
    plan, distance = history.plan, history.plan.topology.distances
    origin, home = int(history.origin[publication]), plan.home[plan.owner[subscription]]
    for excused, broker, following in history.excused:
        if excused != publication:
            continue
        step = 0 if broker == following else 1
        if distance[origin, broker] + step + distance[following, home] == distance[origin, home] and (
            step or broker == home
        ):
            return True
    return False


class _Hops:
    """Arrivals of publications at brokers, by publication."""

    def __init__(self, history: History) -> None:
        self.history = history
        publication = numbers(history.hop_publication)
        order = np.argsort(publication, kind="stable")
        self.publication = publication[order]
        self.sender, self.receiver = numbers(history.hop_from)[order], numbers(history.hop_to)[order]
        self.home = np.array(history.plan.home, np.int64)[np.array(history.plan.owner, np.int64)]

    def count(self, verdict: Verdict, begin: int, end: int, publication: I64, subscription: I64) -> None:
        """Add the hops of publications begin … end - 1, which match these subscriptions."""
        history, topology = self.history, self.history.plan.topology
        first, last = topology.intervals
        sent = history.sent[publication]
        wanted = (history.asked[subscription] < sent) & (history.gone[subscription] > sent)
        matched = np.zeros((end - begin, len(first) + 1), np.int64)
        matched[publication[wanted] - begin, first[self.home[subscription[wanted]]] + 1] = 1
        before = matched.cumsum(axis=1)  # matching brokers with a lower number
        low, high = np.searchsorted(self.publication, [begin, end])
        row, sender, receiver = (
            self.publication[low:high] - begin,
            self.sender[low:high],
            self.receiver[low:high],
        )
        is_down = topology.parent[receiver] == sender
        is_down &= receiver != 0
        below = np.where(is_down, receiver, sender)
        inside = before[row, last[below] + 1] - before[row, first[below]]
        useful = np.where(is_down, inside, before[row, -1] - inside) > 0
        hop = topology.distances[history.origin[begin:end][row], receiver]
        for number, count in Counter(hop.tolist()).items():
            verdict.arrivals_by_hop[number] = verdict.arrivals_by_hop.get(number, 0) + count
        for number, count in Counter(hop[~useful].tolist()).items():
            verdict.false_by_hop[number] = verdict.false_by_hop.get(number, 0) + count
