"""Who wants what, and who is told: entries of all sources, the links, and what is in force where.

    per incoming link    what the neighbour wants, by its label           Link.wants
    per outgoing link    what the neighbour was told                      the policy
    local                subscriptions, exactly                           delivery.py

A change goes through `changed`: the policy says for each link what to tell, and whoever asked waits until every link
has acknowledged what it had been told by then (neighbour.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from earmark.overlay import messages as m
from earmark.overlay.neighbour import NEVER, Asker, Link, Party
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
from earmark.overlay.table import Table
from earmark.overlay.transitions import State

Sent: TypeAlias = tuple[Party, m.Message]
Admits: TypeAlias = Callable[[Link, Entry], bool]


_MESSAGES: dict[type, Callable[..., m.Message]] = {
    Tell: m.Want,
    Untell: m.Unwant,
    TellRanges: m.WantRanges,
    UntellRanges: m.UnwantRanges,
}
"""The message of a statement, whose fields follow a number."""


class Router:
    """Entries, links and the policy."""

    def __init__(self, name: str, run: int, policy: Policy, policy_name: str, table: Table) -> None:
        self.name = name
        self.run = run
        self.policy = policy
        self.policy_name = policy_name
        self.table = table
        self.links: dict[str, Link] = {}
        self.entries: dict[int, Entry] = {}
        """What is wanted, of all sources."""
        self.waiting: dict[int, Asker] = {}
        """Askers with something unanswered, by identity."""
        self._last_entry = 0
        self.admits: Admits = lambda link, entry: True
        """Whether an entry concerns a link; with advertisements, whether somebody offers there what it wants."""

    # --- links -----------------------------------------------------------------------------------------------

    def link(self, name: str) -> Link:
        """The link to a neighbour; a new one hears of all entries."""
        if name not in self.links:
            link = self.links[name] = Link(Party("broker", name), is_attached=True)
            self.policy.open(name)
            self.policy.change(name, [e for e in self.entries.values() if self.admits(link, e)], [])
        return self.links[name]

    def drop(self, link: Link) -> list[Sent]:
        """Forget a link, and what it wants."""
        del self.links[link.name]
        self.waiting.pop(id(link), None)
        self.policy.close(link.name)
        said = self.policy.settle_ranges(link.name, self.links)
        return [*self.changed([], self.entries_of(link)), *self.heed(said), *self.synchronise(), *self.settle()]

    def greet(self, link: Link) -> list[Sent]:
        """What to say on a new channel: who we are, and everything."""
        hello = m.Hello(self.name, self.run, self.policy_name, self.policy.space)
        return [self._to(link, hello), *self.tell_all(link)]

    def tell_all(self, link: Link) -> list[Sent]:
        """Tell everything again. Nothing is in force beyond the link until all of it is."""
        link.sent += 1
        sent = [self._to(link, m.Resynchronise(link.sent, self.policy.space))]
        for offer in self.offers_for(link):
            link.sent += 1
            sent.append(self._to(link, m.Offer(link.sent, offer.number, offer.condition)))
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
                sent.append(self._to(link, m.Synchronised(link.sent)))
        return sent

    def cut(self, link: Link) -> None:
        """The channel is gone."""
        link.state = State.DOWN
        link.owes, link.base = False, NEVER
        link.asked.clear()
        link.answered = link.heard = 0
        self.waiting.pop(id(link), None)

    @staticmethod
    def stale_entries(link: Link) -> list[Entry]:
        """The entries that a neighbour told on an older channel and not on this one."""
        return [entry for entries in link.stale.values() for entry in entries]

    @staticmethod
    def entries_of(link: Link) -> list[Entry]:
        """The entries that a neighbour told."""
        return [*link.wants.values(), *Router.stale_entries(link)]

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
        self.entries.update((entry.number, entry) for entry in added)
        for entry in removed:
            del self.entries[entry.number]
        sent: list[Sent] = []
        for link in self.links.values():
            name, admits = link.name, self.admits
            new = [entry for entry in added if entry.source != name and admits(link, entry)]
            old = [entry for entry in removed if entry.source != name and admits(link, entry)]
            if new or old:
                sent += self.say_all(link, self.policy.change(name, new, old))
        self.policy.unlearn(removed)
        return sent

    def say_all(self, link: Link, statements: Iterable[Statement]) -> Iterator[Sent]:
        """The messages of statements. A link without a channel hears nothing: it will be told everything."""
        for statement in statements:
            if not link.is_connected:
                continue
            if isinstance(statement, Again):
                yield from self.tell_all(link)
                return
            yield self._say(link, statement)

    def heed(self, said: Iterable[tuple[str, Statement]]) -> list[Sent]:
        """The messages of statements that the policy addresses."""
        return [sent for name, statement in said for sent in self.say_all(self.links[name], [statement])]

    def offers_for(self, link: Link) -> Iterable[Entry]:
        """What a neighbour is told that may come from here."""
        return ()

    def _say(self, link: Link, statement: Statement) -> Sent:
        link.sent += 1
        return link.party, _MESSAGES[type(statement)](link.sent, *statement)

    @staticmethod
    def _to(link: Link, message: m.Message) -> Sent:
        return link.party, message

    # --- in force ----------------------------------------------------------------------------------------------

    def ask(self, asker: Asker, number: int) -> None:
        """Somebody has asked something, and all links have been told: it waits for what they have been told."""
        needs = {
            link.name: link.sent
            for link in self.links.values()
            if link is not asker and not link.has_acknowledged(link.sent)
        }
        asker.asked.append((number, needs))
        self.waiting[id(asker)] = asker

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
