"""The client for programs without an event loop: the same calls, each returning when done.

TRUSTED, I/O. One background thread runs the loop; the wrapper may be used from one thread at a time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from secroute.client.client import Client, Publishable, connect
from secroute.client.durables import DurableState
from secroute.client.identity import TlsIdentity
from secroute.client.options import Options
from secroute.client.stats import ClientStats
from secroute.client.subscription import ReceivedMessage, Subscription
from secroute.keyring import Keyring

T = TypeVar("T")


class BlockingMessage:
    """One received message; its verdicts return once they are on their way (or confirmed)."""

    def __init__(self, loop: _Loop, message: ReceivedMessage) -> None:
        self._loop, self._message = loop, message
        self.attributes = message.attributes
        self.payload = message.payload
        self.redelivered = message.redelivered
        self.publisher = message.publisher

    def ack(self, *, confirmed: bool = False) -> None:
        """See ``ReceivedMessage.ack``."""
        self._loop.call(self._message.ack(confirmed=confirmed))

    def retry(self) -> None:
        """See ``ReceivedMessage.retry``."""
        self._loop.call(self._message.retry())

    def reject(self) -> None:
        """See ``ReceivedMessage.reject``."""
        self._loop.call(self._message.reject())


class _Loop:
    """An event loop in its own thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="secroute-client", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        future: concurrent.futures.Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BlockingSubscription:
    """An active subscription; iterate over it, or ask ``next(timeout_s)``."""

    def __init__(self, loop: _Loop, subscription: Subscription) -> None:
        self._loop, self._subscription = loop, subscription

    def __enter__(self) -> Self:
        self._loop.call(self._subscription.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call(self._subscription.close())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> BlockingMessage:
        try:
            return BlockingMessage(self._loop, self._loop.call(self._subscription.__anext__()))
        except StopAsyncIteration:
            raise StopIteration from None

    def next(self, timeout_s: float) -> BlockingMessage | None:
        """The next message, or None if there is none within the time."""
        message = self._loop.call(self._subscription.next(timeout_s))
        return None if message is None else BlockingMessage(self._loop, message)


class BlockingClient:
    """Made by ``connect_blocking``."""

    def __init__(self, loop: _Loop, client: Client) -> None:
        self._loop, self._client = loop, client

    def __enter__(self) -> Self:
        try:
            self._loop.call(self._client.__aenter__())
        except BaseException:
            self._loop.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._loop.call(self._client.__aexit__(kind, error, trace))
        finally:
            self._loop.stop()

    @property
    def stats(self) -> ClientStats:
        """The client's counters."""
        return self._client.stats

    def publish(
        self, message: Publishable, payload: bytes = b"", *, best_effort: bool = False, ttl_s: float = 0.0
    ) -> None:
        """See ``Client.publish``."""
        self._loop.call(self._client.publish(message, payload, best_effort=best_effort, ttl_s=ttl_s))

    def publish_many(self, messages: Iterable[Publishable], *, best_effort: bool = False, ttl_s: float = 0.0) -> int:
        """See ``Client.publish_many``."""
        return self._loop.call(self._client.publish_many(messages, best_effort=best_effort, ttl_s=ttl_s))

    def durables(self) -> list[DurableState]:
        """See ``Client.durables``."""
        return self._loop.call(self._client.durables())

    def delete_durable(self, name: str) -> int:
        """See ``Client.delete_durable``."""
        return self._loop.call(self._client.delete_durable(name))

    def subscribe(self, predicate: str, *, durable: str | None = None, **more: Any) -> BlockingSubscription:
        """See ``Client.subscribe``."""

        async def make() -> Subscription:
            return self._client.subscribe(predicate, durable=durable, **more)

        return BlockingSubscription(self._loop, self._loop.call(make()))


def connect_blocking(
    target: str | list[str] | tuple[str, ...],
    *,
    keyring: Keyring | str | os.PathLike[str],
    identity: TlsIdentity | None = None,
    options: Options | None = None,
) -> BlockingClient:
    """A client to enter with ``with``; see ``connect``."""
    loop = _Loop()

    async def make() -> Client:
        return connect(target, keyring=keyring, identity=identity, options=options)

    try:
        return BlockingClient(loop, loop.call(make()))
    except BaseException:
        loop.stop()
        raise
