"""A refusal showed a client the condition of another one, and an id that was not its own."""

from __future__ import annotations

import pytest

from earmark.overlay.broker import Broker, Party
from earmark.overlay.messages import Advertise, Message, Publish, Refused, Subscribe

ANN, EVE = Party("client", "ann"), Party("client", "eve")


@pytest.mark.parametrize(
    ("request_", "owner"),
    [
        (Subscribe(1, "probe", "salary = 'x'"), "subscription 'probe': "),
        (Subscribe(1, "probe", "salary LIKE 'x%'"), "subscription 'probe': "),
        (Advertise(1, "probe", "salary = 'x'"), "advertisement 'probe': "),
        (Publish(1, {"salary": "x"}), ""),
    ],
)
def test_refusals_do_not_show_what_others_asked(request_: Message, owner: str):
    broker = Broker("hub")
    broker.receive(Subscribe(1, "mine", "name = 'ann' AND salary > 123456"), ANN)
    broker.receive(Advertise(2, "mine", "salary > 123456"), ANN)
    [(to, refused)] = [one for one in broker.receive(request_, EVE) if isinstance(one[1], Refused)]
    assert to == EVE and isinstance(refused, Refused)
    assert refused.reason.startswith(owner)
    assert "123456" not in refused.reason and "mine" not in refused.reason
    assert "number" in refused.reason and "(first used so by another subscription)" in refused.reason


def test_a_client_is_shown_its_own_condition():
    broker = Broker("hub")
    [(_, refused)] = broker.receive(Subscribe(1, "probe", "salary > 7 AND salary = 'x'"), EVE)
    assert isinstance(refused, Refused)
    assert refused.reason.startswith("subscription 'probe': ")
    assert "first used so by salary > 7" in refused.reason
