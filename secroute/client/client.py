"""The client: keeps a session with one of several routers, and everything an application asked for, alive.

TRUSTED, I/O. One task owns the connection (connect, serve, back off, again); packing, acks and the keyring's watch have
their own. Subscriptions and unacknowledged publications outlive connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import AsyncIterable, Coroutine, Iterable, Mapping
from typing import Any, Self

from secroute import limits
from secroute.client.acks import AckSender
from secroute.client.body import encode_body
from secroute.client.durables import DurableState, states_of
from secroute.client.epochs import EpochBook
from secroute.client.identity import TlsIdentity, parse_targets, require_loopback
from secroute.client.inbox import Inbox
from secroute.client.ledger import Duplicates, Ledger
from secroute.client.link import SOFTWARE, Link, refusal
from secroute.client.many import all_of, each
from secroute.client.options import Options
from secroute.client.outbox import Outbox
from secroute.client.stats import ClientStats
from secroute.client.subscription import Gap, OnGap, Subscription
from secroute.client.table import SubscriptionTable, failed
from secroute.content import Message, Node, Value, parse
from secroute.errors import (
    ClientError,
    ConnectError,
    ConnectionLostError,
    LimitError,
    RefusedError,
    SecrouteError,
    place_of,
)
from secroute.keyring import Keyring
from secroute.opaque import EncodedBatch
from secroute.wire import frames
from secroute.wire._generated import gateway_pb2
from secroute.wire.frames import Credit, Durable, Hello, Mode, Welcome

_log = logging.getLogger("secroute.client")
_CHUNKS_AHEAD = 16  # batches of one publish_many that may be without a result

Publishable = Message | Mapping[str, Value]
_FINAL_REASONS = frozenset({"forbidden", "version"})


class Client:
    """Made by ``connect``."""

    def __init__(
        self, targets: tuple[str, ...], keyring: Keyring, identity: TlsIdentity | None, options: Options
    ) -> None:
        self.stats = ClientStats()
        self._targets, self._identity, self._options = targets, identity, options
        self._book = EpochBook(keyring, options)
        self._outbox = Outbox(self._book, options, self.stats)
        self._inbox = Inbox(self._book, self.stats)
        self._ordinary = Ledger(0, options.credit_messages, options.credit_bytes, self._duplicates())
        self._durable_duplicates: dict[bytes, Duplicates] = {}
        self._table = SubscriptionTable(self._book)
        self._acks = AckSender(options)
        self._next_subscription = 0
        self._link: Link | None = None
        self._resume: tuple[str, bytes] | None = None
        self._connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False
        self._failure: ClientError | None = None
        self._drained = False

    def _duplicates(self) -> Duplicates:
        return Duplicates(4 * self._options.credit_messages)

    # --- life ---

    async def __aenter__(self) -> Self:
        for work in (self._run, self._outbox.run, self._outbox.expire, self._watch_keyring):
            self._begin(work())
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                await asyncio.shield(self._connected)
        except TimeoutError:
            await self._stop(goodbye=False)
            raise ConnectError(f"no router answered at {', '.join(self._targets)}") from None
        except BaseException:
            await self._stop(goodbye=False)
            raise
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._options.publish_timeout_s):
                        await self.flush()
            # Together: a router that does not answer costs the time of one answer, not of all.
            await asyncio.gather(*(subscription.close() for subscription in self._table.all()))
        finally:
            await self._stop(goodbye=True)

    async def flush(self) -> None:
        """Return once everything published so far has its result, good or bad."""
        while not self._outbox.idle:
            await asyncio.sleep(0.005)

    async def _stop(self, goodbye: bool) -> None:
        self._closing = True
        for task in self._tasks[1:]:
            task.cancel()
        try:
            if self._link is not None and goodbye:
                await self._link.close(goodbye=True)
        finally:
            self._acks.detach()
            self._outbox.fail(ClientError("the client was closed"))
            self._connected.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """No task of ours fails. If one does, nobody may wait for what it will never do."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        _log.error("the client has failed: %s\n%s", type(error).__name__, place_of(error))
        self._failure = ClientError(f"the client has failed ({type(error).__name__}); its log says where")
        self._outbox.fail(self._failure)
        for subscription in self._table.all():
            failed(subscription, self._failure)

    @property
    def connected_to(self) -> str | None:
        """The router's address, while connected."""
        return self._link.target if self._link else None

    # --- publishing ---

    async def publish(
        self,
        message: Publishable,
        payload: bytes = b"",
        *,
        best_effort: bool = False,
        ttl_s: float = 0.0,
    ) -> None:
        """Publish one message; returns when the router has taken it (durably, unless ``best_effort``)."""
        await self._put(message, payload, best_effort, ttl_s)

    async def publish_many(
        self,
        messages: Iterable[Publishable] | AsyncIterable[Publishable],
        *,
        best_effort: bool = False,
        ttl_s: float = 0.0,
    ) -> int:
        """Publish in full batches, in order; returns how many once all are taken, raises the first refusal."""
        ahead = _CHUNKS_AHEAD * self._options.batch_messages
        open_results: list[asyncio.Future[None]] = []
        count = 0
        async for message in each(messages):
            open_results.append(self._put(message, b"", best_effort, ttl_s))
            count += 1
            if len(open_results) >= ahead:
                half, open_results = open_results[: ahead // 2], open_results[ahead // 2 :]
                await all_of(half)
        await all_of(open_results)
        return count

    def _put(self, message: Publishable, payload: bytes, best_effort: bool, ttl_s: float) -> asyncio.Future[None]:
        if self._closing or self._failure is not None:
            raise self._failure or ClientError("the client is closed")
        if not 0 <= ttl_s * 1000 <= limits.TTL_MS_MAX:
            raise LimitError(f"a time to live is 0..{limits.TTL_MS_MAX // 1000} s, not {ttl_s:g}")
        if not isinstance(message, Message):
            message = Message(message)
        mode = Mode.BEST_EFFORT if best_effort else Mode.AT_LEAST_ONCE
        return self._outbox.put(message.attributes, payload, mode, int(ttl_s * 1000))

    def encode(self, messages: Iterable[Publishable]) -> EncodedBatch:
        """What a router would be given for these messages, without sending anything."""
        ready = [each if isinstance(each, Message) else Message(each) for each in messages]
        return self._book.seal([each.attributes for each in ready], [encode_body(each.attributes) for each in ready])

    # --- subscribing ---

    def subscribe(
        self,
        predicate: str | Node,
        *,
        durable: str | None = None,
        shared: bool = False,
        prefetch: int | None = None,
        ack_timeout_s: float = 0.0,
        tries_max: int = 0,
        match_all: bool = False,
        on_gap: OnGap | None = None,
    ) -> Subscription:
        """A subscription to enter with ``async with``; it is active once entered.

        ``durable``: a name under which the router keeps messages while nobody is attached. ``shared``: several
        consumers share it. ``match_all``: allow a predicate whose bits would match everything.
        """
        node = parse(predicate) if isinstance(predicate, str) else predicate
        if not (0 <= ack_timeout_s * 1000 <= limits.ACK_TIMEOUT_MS_MAX and 0 <= tries_max <= limits.TRIES_MAX):
            most = f"0..{limits.ACK_TIMEOUT_MS_MAX // 1000} s and 0..{limits.TRIES_MAX} tries"
            raise LimitError(f"acks may take {most}, not {ack_timeout_s:g} s and {tries_max} tries")
        self._next_subscription += 1
        number = self._next_subscription
        ledger, attachment = self._ordinary, None
        if durable is not None:
            name = self._book.durable_name(durable)
            if self._table.has_durable(name):
                raise ClientError("this durable subscription is already open in this client")
            duplicates = self._durable_duplicates.setdefault(name, self._duplicates())
            ledger = Ledger(number, prefetch or self._options.credit_messages, self._options.credit_bytes, duplicates)
            attachment = Durable(name, shared, int(ack_timeout_s * 1000), tries_max)
        return Subscription(self, number, node, match_all=match_all, durable=attachment, ledger=ledger, on_gap=on_gap)

    async def _activate(self, subscription: Subscription) -> None:
        try:
            self._table.add(subscription)
            async with asyncio.timeout(self._options.request_timeout_s):
                await asyncio.shield(subscription.active)
        except TimeoutError:
            self._table.discard(subscription.number)
            raise ConnectionLostError("no router has confirmed the subscription in time") from None
        except BaseException:
            self._table.discard(subscription.number)
            raise

    async def _deactivate(self, subscription: Subscription, delete: bool) -> None:
        try:
            async with asyncio.timeout(self._options.request_timeout_s):
                if subscription.durable is not None:
                    await self._acks.confirm(subscription.ledger)
                await self._table.leave(subscription, delete)
        except (TimeoutError, ClientError):
            # Without a connection the router notices by itself; unconfirmed acks may come again, as they say.
            self._table.discard(subscription.number)
            if delete:
                raise

    async def durables(self) -> list[DurableState]:
        """This certificate's durable subscriptions on the router that we are connected to."""
        return states_of(await self._ask("ListDurable", gateway_pb2.ListDurableRequest()))

    async def delete_durable(self, name: str) -> int:
        """Delete one with everything that waits in it, attached or not; returns how many messages that were."""
        request = gateway_pb2.DeleteDurableRequest(name=self._book.durable_name(name))
        return int((await self._ask("DeleteDurable", request)).messages_dropped)

    async def _ask(self, method: str, request: Any) -> Any:
        if self._link is None:
            raise ConnectionLostError("not connected")
        return await self._link.ask(method, request, self._options.request_timeout_s)

    # --- the connection ---

    async def _run(self) -> None:
        attempt = 0
        while not self._closing:
            target = self._targets[attempt % len(self._targets)]
            link, broke = Link(target, self._identity), False
            try:
                welcome = await link.open(self._hello(target), self._options.attempt_timeout_s)
                attempt = attempt % len(self._targets)
                await self._serve(link, welcome)
            except SecrouteError as error:
                if not self._closing:
                    _log.warning("connection to %s: %s", target, error)
                final = isinstance(error, RefusedError) and error.reason in _FINAL_REASONS
                if final and not self._connected.done() and len(self._targets) == 1:
                    self._connected.set_exception(error)
            except Exception as error:
                # Nobody knows what was done with the frame, so the session is not resumed; everything is asked anew.
                kind, where = type(error).__name__, place_of(error)
                _log.error("connection to %s: a frame could not be handled: %s\n%s", target, kind, where)
                self._resume, broke = None, True
            finally:
                self._detach()
                await link.close()
            if self._drained:
                self._drained = False
            else:
                await asyncio.sleep(self._options.backoff_max_s if broke else self._pause(attempt))
            attempt += 1

    def _pause(self, attempt: int) -> float:
        """Exponential, with jitter so that a restarted router is not met by everyone at once."""
        full = min(
            self._options.backoff_first_s * 2.0 ** min(attempt // len(self._targets), 16), self._options.backoff_max_s
        )
        return full * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret

    def _hello(self, target: str) -> Hello:
        token = self._resume[1] if self._resume and self._resume[0] == target else b""
        return Hello(
            software=SOFTWARE,
            resume_token=token,
            credit=Credit(0, self._options.credit_messages, self._options.credit_bytes),
        )

    async def _serve(self, link: Link, welcome: Welcome) -> None:
        """Bring everything over to this link, then handle what comes until it ends."""
        self.stats.connects += 1
        self.stats.resumes += welcome.resumed
        self._link = link
        self._resume = (link.target, welcome.resume_token)
        self._ordinary.attach(same_session=welcome.resumed)
        self._acks.attach(link)
        self.stats.gaps += self._table.attach(link, welcome.resumed)
        self._outbox.attach(link.send, welcome.limits, welcome.resumed, welcome.publish_sequence)
        if not self._connected.done():
            self._connected.set_result(None)
        while True:
            self._handle(await link.receive())

    def _detach(self) -> None:
        self._link = None
        self._outbox.detach()
        self._table.detach()
        self._acks.detach()

    def _handle(self, frame: frames.RouterFrame) -> None:
        match frame:
            case frames.Delivery():
                self._delivery(frame)
            case frames.PublishResults():
                for result in frame.results:
                    self._outbox.result(result)
            case frames.SubscribeResult() | frames.UnsubscribeResult():
                self._table.answer(frame)
            case frames.AckResult():
                self._acks.confirmed(frame.request)
            case frames.Gap():
                self._gap(frame)
            case frames.Detached():
                subscription = self._table.discard(frame.subscription)
                if subscription is not None:
                    failed(subscription, refusal(frame.problem))
            case frames.Drain():
                self._begin(self._drain(frame.deadline_s))
            case frames.Goodbye():
                self._resume = None
                problem = frame.problem or frames.Problem("goodbye", "the router ended the session")
                raise refusal(problem)
            case _:
                raise ConnectionLostError(f"the router sent {type(frame).__name__}, which is not expected now")

    def _delivery(self, frame: frames.Delivery) -> None:
        if frame.subscription == 0:
            ledger = self._ordinary
            takers = self._table.ordinary()
        else:
            subscription = self._table.get(frame.subscription)
            if subscription is None:
                return  # just closed; what is not acked goes to the next consumer
            ledger, takers = subscription.ledger, [subscription]
        for part in frame.slices:
            self._inbox.take(part, ledger, takers)
        self._acks.due(ledger)

    def _gap(self, frame: frames.Gap) -> None:
        self.stats.gaps += 1
        reason = frame.reason.name.lower().replace("_", "-")
        gap = Gap(reason, frame.messages, frame.epoch or None, frame.first_unix_ms, frame.last_unix_ms)
        _log.warning("gap: %d messages were not kept (%s)", frame.messages, reason)

        def acknowledge() -> None:
            if self._link is not None:
                self._link.send(frames.GapAck(frame.subscription, frame.gap))

        subscription = self._table.get(frame.subscription)
        if subscription is not None:
            subscription.gap(frame.gap, gap, acknowledge)
        elif frame.subscription == 0:
            for each in self._table.ordinary():
                each.gap(0, gap)
            acknowledge()

    async def _drain(self, deadline_s: int) -> None:
        """The router will stop. With another one to go to, go there as soon as nothing is under way."""
        if len(self._targets) == 1 or self._link is None:
            return
        link = self._link
        self._outbox.pause()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(deadline_s / 2, 0.5)):
                while not self._outbox.quiet:
                    await asyncio.sleep(0.01)
        if self._link is link:
            self._drained = True
            self._resume = None
            await link.close(goodbye=True)

    # --- rotation ---

    async def _watch_keyring(self) -> None:
        """Take up a new epoch and let go of an ended one, without a restart."""
        while True:
            await asyncio.sleep(self._options.keyring_poll_s)
            try:
                self._table.rotate()
            except SecrouteError as error:
                _log.warning("keyring: %s", error)


def connect(
    target: str | list[str] | tuple[str, ...],
    *,
    keyring: Keyring | str | os.PathLike[str],
    identity: TlsIdentity | None = None,
    options: Options | None = None,
) -> Client:
    """A client to enter with ``async with``.

    ``target``: ``host:port``, or several (tried in turn). ``keyring``: a keyring or the path of one. ``identity``: the
    certificate to show; without one only a router on this machine that allows plaintext can be reached.
    """
    targets = parse_targets(target)
    if identity is None:
        require_loopback(targets)
    keys = keyring if isinstance(keyring, Keyring) else Keyring.load(keyring)
    return Client(targets, keys, identity, options or Options())
