"""What a broker says of itself: sizes of tables, states of links, queues and counters, JSON-able."""

from __future__ import annotations

from earmark.overlay.delivery import Client
from earmark.overlay.neighbour import NeighbourLink
from earmark.overlay.routing import Router


def router_status(router: Router) -> dict[str, object]:
    """The policy, what is wanted, and all links."""
    return {
        "policy": router.policy_name,
        "entries": len(router.entries),
        "wide": len(router.table.wide),
        "links": {name: _link_status(link, router) for name, link in router.links.items()},
    }


def _link_status(link: NeighbourLink, router: Router) -> dict[str, object]:
    return {
        "state": link.state.name.lower(),
        "late": link.is_late,
        "run": link.run,
        "wants": len(link.wants) + len(link.stale),
        "offers": len(link.offers) + len(link.stale_offers),
        "sent": link.sent,
        "acknowledged": link.acknowledged,
        "heard": link.heard,
        "answered": link.answered,
        "held": len(link.held),
        "held_bytes": link.held.size,
        "lost": link.lost,
    } | router.policy.status(link.name)


def client_status(client: Client) -> dict[str, object]:
    """Whether a client is there, what it asked for, and what waits for it."""
    return {
        "attached": client.is_attached,
        "subscriptions": len(client.subscriptions),
        "advertisements": len(client.offers),
        "waiting": len(client.waiting),
        "shed": client.shed_in_all,
        "last": client.last,
        "in force": client.answered,
    }
