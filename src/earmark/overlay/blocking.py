"""Client: an AsyncClient for code without asyncio, in a thread of its own.

with Client("127.0.0.1:7000", name="alice", token_file="token") as client:
    client.subscribe("hot", "temperature > 30")
    client.wait_in_force()
    for notification in client: …
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Self, TypeVar

from earmark.overlay.access import Address
from earmark.overlay.client import AsyncClient, ClosedError
from earmark.overlay.messages import Id, Notify
from earmark.overlay.refusals import THREAD

T = TypeVar("T")


class Client:
    """The same client for code without asyncio: its methods wait. Its connection lives in a thread of its own.

    Takes the arguments of AsyncClient. Use it as `with`, or call `close` at the end. Threads may share it; when one of
    them closes it, the calls of the others end with an EarmarkError.
    """

    def __init__(self, address: str | Address, **options: Any) -> None:
        self._client = AsyncClient(address, **options)
        self._lock = threading.RLock()  # a signal handler may close it in the middle
        """Held to hand work to the loop: once it is closed, no work follows that nobody would do."""
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="earmark client", daemon=True)
        self._thread.start()
        try:
            self._run(self._client.connect())
        except BaseException:
            self.close()
            raise

    def _work(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            if self._is_closed:
                work.close()
                raise ClosedError
            caller_before = THREAD.set(threading.current_thread())
            try:
                future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
            finally:
                THREAD.reset(caller_before)
        try:
            return future.result()
        except BaseException as problem:
            future.cancel()
            if isinstance(problem, CancelledError) and self._is_closed:
                raise ClosedError from None
            raise

    def close(self) -> None:
        """Disconnect. Subscriptions stay at the broker; what has not been sent is dropped (see `flush`)."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        self._thread.join()

    async def _end(self) -> None:
        """Disconnect, so that all calls in flight end, and stop the loop behind them."""
        try:
            await self._client.close()
            if others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others, timeout=1.0)
                for task in others:
                    task.cancel()
                await asyncio.wait(others, timeout=1.0)
        finally:
            self._loop.call_soon(self._loop.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._client.is_connected

    @property
    def shed(self) -> int:
        """Notifications that were dropped, because they were not taken in time."""
        return self._client.shed

    @property
    def uncertain(self) -> int:
        """Publications that were on their way when the broker stopped: delivered or lost."""
        return self._client.uncertain

    @property
    def duplicates(self) -> int:
        """Notifications that arrived a second time and were ignored."""
        return self._client.duplicates

    def subscribe(
        self, id: Id, condition: str, *, weights: Mapping[str, float] | None = None, score: float = 0.0
    ) -> None:
        """Ask for all publications that match a condition. `wait_in_force` says when it counts, or was refused."""
        self._run(self._client.subscribe(id, condition, weights=weights, score=score))

    def unsubscribe(self, id: Id) -> None:
        """Withdraw a subscription."""
        self._run(self._client.unsubscribe(id))

    def advertise(self, id: Id, condition: str) -> None:
        """Announce that this client will publish events that match a condition."""
        self._run(self._client.advertise(id, condition))

    def unadvertise(self, id: Id) -> None:
        """Withdraw an advertisement."""
        self._run(self._client.unadvertise(id))

    def prefer(self, *, k: int | None = None, queue: int = 1_024) -> None:
        """Choose the k best matches per publication instead of all, and how many notifications may wait."""
        self._run(self._client.prefer(k=k, queue=queue))

    def publish(self, event: Mapping[str, Any], *, weights: Mapping[str, float] | None = None) -> None:
        """Publish an event. Waits while the broker does not keep up; see `flush`."""
        self._run(self._client.publish(event, weights=weights))

    def wait_in_force(self, seconds: float | None = None) -> None:
        """Wait until everything asked so far is in force in all brokers. Raises RequestRefused for what was refused."""
        self._run(self._client.wait_in_force(seconds))

    def flush(self, seconds: float | None = None) -> None:
        """Wait until the broker has taken everything that was asked and published. Raises RequestRefused as above."""
        self._run(self._client.flush(seconds))

    def get(self, seconds: float | None = None) -> Notify | None:
        """Return the next notification; None if there is none within this time."""
        return self._run(self._client.get(seconds))

    def __iter__(self) -> Iterator[Notify]:
        """Wait for one notification after the other, until the client is closed."""
        with contextlib.suppress(ClosedError):
            while (notification := self.get()) is not None:
                yield notification
