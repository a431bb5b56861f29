"""Who gave a wrong token read "127.0.0.1:47358: does not know the token", of its own end of the connection."""

from __future__ import annotations

import asyncio
import re

import pytest

from earmark.errors import EarmarkError
from earmark.overlay import BrokerServer, ask_status


def test_the_sentence_for_a_wrong_token() -> None:
    async def work() -> None:
        async with BrokerServer("hub", token=b"sixteen bytes or more", listen="127.0.0.1:0") as hub:
            sentence = f"the broker at {hub.address}: expected the token of this network, got another one"
            with pytest.raises(EarmarkError, match=f"^{re.escape(sentence)}$"):
                await ask_status(hub.address, token=b"something else entirely")

    asyncio.run(work())
