"""Who wants what, and who is told: entries of all sources, the links, and what is in force where.

    per incoming link    what the neighbour wants, by its label           NeighbourLink.wants
    per outgoing link    what the neighbour was told                      the policy
    local                subscriptions, exactly                           delivery.py

A change goes through `changed`: the policy says for each link what to tell, and whoever asked waits until every link
has acknowledged what it had been told by then (neighbour.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from earmark.errors import EarmarkError
from earmark.overlay import messages as m
from earmark.overlay.neighbour import NEVER, Asker, NeighbourLink, Party
from earmark.overlay.offers import Offers
from earmark.overlay.policies import (
    Again,
    Entry,
    Policy,
    Statement,
    Tell,
    TellRanges,
    Untell,
    UntellRanges,
)
from earmark.overlay.table import MOST_OWNERS, Table
from earmark.overlay.transitions import State

Sent: TypeAlias = tuple[Party, m.Message]
MOST_ASKED = 4_096
"""Requests of one client or neighbour that are answered each by itself, while they wait for others to acknowledge."""

_MESSAGES: dict[type, Callable[..., m.Message]] = {
    Tell: m.Want,
    Untell: m.Unwant,
    TellRanges: m.WantRanges,
    UntellRanges: m.UnwantRanges,
}
"""The message of a statement, whose fields follow a number."""


class Router:
    """Entries, links and the policy."""

    def __init__(
        self, name: str, run: int, policy: Policy, policy_name: str, table: Table, offers: Offers | None
    ) -> None:
        """Make a router without links; `offers` are used where they are given."""
        self.name = name
        self.run = run
        self.policy = policy
        self.policy_name = policy_name if offers is None else f"{policy_name} with advertisements"
        self.table = table
        self.offers = offers
        self.links: dict[str, NeighbourLink] = {}
        self.entries: dict[int, Entry] = {}
        """What is wanted, of all sources."""
        self.waiting: dict[int, Asker] = {}
        """Askers with something unanswered, by identity."""
        self._last_entry = 0

    # --- links -----------------------------------------------------------------------------------------------

    def link(self, name: str) -> NeighbourLink:
        """The link to a neighbour; a new one hears of all entries."""
        if name not in self.links:
            admitted: set[int] | None = None if self.offers is None else set()
            link = self.links[name] = NeighbourLink(
                Party("broker", name), is_attached=True, code=self._free_code(), admitted=admitted
            )
            self.policy.open(name)
            known = [entry for entry in self.entries.values() if entry.source != name]
            self._tell_change(link, known, [])
        return self.links[name]

    def _free_code(self) -> int:
        used = {link.code for link in self.links.values()}
        if len(used) == MOST_OWNERS:
            raise EarmarkError(f"expected at most {MOST_OWNERS:,} neighbours")
        return next(code for code in range(MOST_OWNERS) if code not in used)

    def drop(self, link: NeighbourLink) -> list[Sent]:
        """Forget a link, and what it wants."""
        del self.links[link.name]
        self.waiting.pop(id(link), None)
        for asker in self.waiting.values():
            for _, needs in asker.asked:
                needs.pop(link.name, None)
        self.policy.close(link.name)
        said = self.policy.settle_ranges(link.name)
        sent = [*self.changed([], self.entries_of(link)), *self.heed(said)]
        for offer in [*link.offers.values(), *link.stale_offers]:
            sent += self.unoffered(offer)
        return [*sent, *self.synchronise(), *self.settle()]

    def greet(self, link: NeighbourLink) -> list[Sent]:
        """What to say on a new channel: who we are, and everything."""
        link.restarts = 0
        hello = m.Hello(self.name, self.run, self.policy_name, self.policy.space)
        return [(link.party, hello), *self.tell_all(link)]

    def tell_all(self, link: NeighbourLink) -> list[Sent]:
        """Tell everything again. Nothing is in force beyond the link until all of it is."""
        link.restarts += 1
        link.sent += 1
        sent: list[Sent] = [(link.party, m.Resynchronise(link.sent, self.policy.space))]
        for offer in () if self.offers is None else self.offers.told(link.name):
            link.sent += 1
            sent.append((link.party, m.Offer(link.sent, offer.number, offer.condition)))
        for statement in self.policy.told(link.name):
            sent.append(self._say(link, statement))
        link.owes, link.base = True, NEVER
        return [*sent, *self.synchronise()]

    def synchronise(self) -> list[Sent]:
        """Synchronised for all links that have been told everything, which is when all others have told everything."""
        sent: list[Sent] = []
        unknown = [link for link in self.links.values() if not link.is_known]
        for link in self.links.values():
            if link.owes and all(other is link for other in unknown):
                link.owes = False
                link.sent += 1
                link.base = link.sent
                sent.append((link.party, m.Synchronised(link.sent)))
        return sent

    def cut(self, link: NeighbourLink) -> None:
        """The channel is gone."""
        link.state, link.quiet_since = State.DOWN, None
        link.owes, link.base = False, NEVER
        link.asked.clear()
        link.answered = link.heard = 0
        self.waiting.pop(id(link), None)

    @staticmethod
    def entries_of(link: NeighbourLink) -> list[Entry]:
        """The entries that a neighbour told."""
        return [*link.wants.values(), *link.stale]

    # --- what is wanted ----------------------------------------------------------------------------------------

    def entry(self, source: str, condition: str) -> Entry:
        """A new entry, which nobody knows of yet."""
        self._last_entry += 1
        return Entry(self._last_entry, source, condition)

    def changed(self, added: Sequence[Entry], removed: Sequence[Entry]) -> list[Sent]:
        """Entries came and went: what to tell on all links that they concern."""
        if not added and not removed:
            return []
        self.policy.learn(added)
        if self.offers is not None:
            self.offers.learn(added)
        self.entries.update((entry.number, entry) for entry in added)
        for entry in removed:
            del self.entries[entry.number]
        sent: list[Sent] = []
        for link in self.links.values():
            new = self._admitted(link, added)
            old = [entry for entry in removed if entry.source != link.name and link.hears_of(entry)]
            if new or old:
                sent += self._tell_change(link, new, old)
        self.policy.unlearn(removed)
        if self.offers is not None:
            self.offers.unlearn(removed)
        return sent

    def _tell_change(self, link: NeighbourLink, added: Sequence[Entry], removed: Sequence[Entry]) -> list[Sent]:
        if link.admitted is not None:
            link.admitted.update(entry.number for entry in added)
            link.admitted.difference_update(entry.number for entry in removed)
        return self.say_all(link, self.policy.change(link.name, added, removed))

    def _admitted(self, link: NeighbourLink, entries: Sequence[Entry]) -> list[Entry]:
        """Those entries that concern a link; with advertisements, those that meet what is offered there."""
        concerned = [entry for entry in entries if entry.source != link.name]
        if self.offers is None:
            return concerned
        if link.is_known:
            concerned = self.offers.meeting(concerned, link.name)
        return concerned

    def say_all(self, link: NeighbourLink, statements: Iterable[Statement]) -> list[Sent]:
        """The messages of statements. A link without a channel hears nothing: it will be told everything."""
        if not link.is_connected:
            return []
        sent: list[Sent] = []
        number, party = link.sent, link.party
        for statement in statements:
            if isinstance(statement, Again):
                link.sent = number
                return [*sent, *self.tell_all(link)]
            number += 1
            sent.append((party, _MESSAGES[type(statement)](number, *statement)))
        link.sent = number
        return sent

    def heed(self, said: Iterable[tuple[str, Statement]]) -> list[Sent]:
        """The messages of statements that the policy addresses."""
        return [sent for name, statement in said for sent in self.say_all(self.links[name], [statement])]

    # --- what is offered ---------------------------------------------------------------------------------------

    def offered(self, offer: Entry) -> list[Sent]:
        """Somebody offers something: tell all others, and tell its source what meets it."""
        assert self.offers is not None
        self.offers.add(offer)
        sent = self._spread(offer, lambda number: m.Offer(number, offer.number, offer.condition))
        link = self.links.get(offer.source)
        if link is not None and link.is_known:
            others = [e for e in self.entries.values() if e.source != link.name and not link.hears_of(e)]
            sent += self._tell_change(link, self.offers.meeting_one(others, offer), [])
        return sent

    def unoffered(self, offer: Entry) -> list[Sent]:
        """An offer is withdrawn: tell all others, and withdraw from its source what meets no other offer."""
        assert self.offers is not None
        self.offers.remove(offer)
        sent = self._spread(offer, lambda number: m.Unoffer(number, offer.number))
        link = self.links.get(offer.source)
        return sent if link is None else [*sent, *self.prune(link)]

    def prune(self, link: NeighbourLink) -> list[Sent]:
        """Withdraw from a neighbour whose offers are known what meets none of them."""
        if self.offers is None or link.admitted is None or not link.is_known:
            return []
        heard = [self.entries[number] for number in sorted(link.admitted)]
        kept = {entry.number for entry in self.offers.meeting(heard, link.name)}
        return [*self._tell_change(link, [], [entry for entry in heard if entry.number not in kept])]

    def _spread(self, offer: Entry, message: Callable[[int], m.Message]) -> list[Sent]:
        sent: list[Sent] = []
        for link in self.links.values():
            if link.name != offer.source and link.is_connected:
                link.sent += 1
                sent.append((link.party, message(link.sent)))
        return sent

    def _say(self, link: NeighbourLink, statement: Statement) -> Sent:
        link.sent += 1
        return link.party, _MESSAGES[type(statement)](link.sent, *statement)

    # --- in force ----------------------------------------------------------------------------------------------

    def ask(self, asker: Asker, number: int) -> None:
        """Somebody has asked something, and all links have been told: it waits for what they have been told."""
        needs = {
            link.name: link.sent
            for link in self.links.values()
            if link is not asker and not link.has_acknowledged(link.sent)
        }
        _append(asker.asked, number, needs)
        self.waiting[id(asker)] = asker
        if len(asker.asked) >= asker.crowded:
            self._shorten(asker)

    def _shorten(self, asker: Asker) -> None:
        """Join requests that wait for the same; if there are still too many, answer every second one with the next."""
        waiting, asker.asked = asker.asked, deque()
        for number, needs in waiting:
            self._is_in_force(needs)
            _append(asker.asked, number, needs)
        if len(asker.asked) > MOST_ASKED:
            first, *others = asker.asked  # the first is kept, so that it need not wait for ever
            asker.asked = deque([first, *others[(len(others) - 1) % 2 :: 2]])
        asker.crowded = max(64, 2 * len(asker.asked))

    def settle(self) -> list[Sent]:
        """InForce for all who need wait no longer."""
        return [sent for asker in [*self.waiting.values()] for sent in self._answered(asker)]

    def _answered(self, asker: Asker) -> list[Sent]:
        before = asker.answered
        while asker.asked and self._is_in_force(asker.asked[0][1]):
            asker.answered = asker.asked.popleft()[0]
        if not asker.asked:
            self.waiting.pop(id(asker), None)
        is_new = asker.answered != before and asker.is_attached
        return [(asker.party, m.InForce(asker.answered))] if is_new else []

    def _is_in_force(self, needs: dict[str, int]) -> bool:
        for name in [*needs]:
            link = self.links.get(name)
            if link is None or link.has_acknowledged(needs[name]):
                del needs[name]
        return not needs


def _append(asked: deque[tuple[int, dict[str, int]]], number: int, needs: dict[str, int]) -> None:
    """Note what a number waits for; it takes the place of one that waits for the same, as InForce is cumulative."""
    if asked and asked[-1][1] == needs:
        asked.pop()
    asked.append((number, needs))
