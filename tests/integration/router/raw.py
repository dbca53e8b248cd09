"""Real router processes over real sockets, and a raw client that speaks ``secroute.wire`` directly."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
import numpy as np

from secroute import limits
from secroute.keyring import certificates
from secroute.opaque import EncodedBatch, EncodedFilters, Scope
from secroute.wire import frames
from secroute.wire._generated import gateway_pb2
from secroute.wire.client_frames import encode_client_frame
from secroute.wire.router_frames import decode_router_frame

F = TypeVar("F")
SPACE = b"\x11" * 16
SCOPE = Scope(SPACE, 1, b"\x22" * 32)
WORDS = 2
METHOD = "/secroute.v1.Gateway/Session"
START_S = 60.0
PLENTY = frames.Credit(0, 100_000, 64 * 1_048_576)
_OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 30.0) -> Any:
    """Poll until the condition holds; its value."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {timeout_s} s for {what}")


@dataclass
class Router:
    """A router process in a folder of its own."""

    folder: Path
    insecure: bool = True
    env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log_path(self) -> Path:
        return self.folder / "log.jsonl"

    def configure(self, text: str = "", tls: bool = False) -> Router:
        lines = ['listen = "127.0.0.1:0"', 'metrics_listen = "127.0.0.1:0"', text]
        if tls:
            lines += ['[tls]\ncertificate = "router.crt"\nkey = "router.key"\nclient_ca = "ca.crt"']
        (self.folder / "router.toml").write_text("\n".join(lines) + "\n")
        self.insecure = not tls
        return self

    def spawn(self, *arguments: str, prefix: Sequence[str] = ()) -> Router:
        """Start it without waiting."""
        (self.folder / "address.json").unlink(missing_ok=True)
        command = [*prefix, sys.executable, "-m", "secroute.cli.main", "router", "run", "--config", "router.toml"]
        command += ["--address-file", "address.json", *(["--insecure"] if self.insecure else []), *arguments]
        with self.log_path.open("ab") as log:
            environment = {**os.environ, **self.env}
            self.process = subprocess.Popen(command, cwd=self.folder, stderr=log, stdout=log, env=environment)
        return self

    def start(self, *arguments: str, prefix: Sequence[str] = ()) -> Router:
        """Start it and wait until it listens."""
        self.spawn(*arguments, prefix=prefix)

        def ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log_path.read_text()
            return (self.folder / "address.json").exists()

        wait_for(ready, "the router to listen", START_S)
        return self

    @property
    def addresses(self) -> dict[str, str]:
        return json.loads((self.folder / "address.json").read_text())

    @property
    def target(self) -> str:
        return self.addresses["listen"]

    def events(self, name: str | None = None) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log_path.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if name is None or line["event"] == name]

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """``kill -9``, as a crash."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """An orderly end."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


class Authority:
    """A CA and certificates in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = certificates.make_ca(now=time.time())
        (folder / "ca.crt").write_bytes(self.ca.certificate)

    def issue(self, name: str, role: certificates.Role = "client", **options: Any) -> certificates.IssuedCertificate:
        issued = certificates.issue(self.ca, name, role, now=options.pop("now", time.time()), **options)
        (self.folder / f"{name}.crt").write_bytes(issued.certificate)
        (self.folder / f"{name}.key").write_bytes(issued.key)
        return issued

    def credentials(self, name: str, **options: Any) -> grpc.ChannelCredentials:
        issued = self.issue(name, **options)
        return grpc.ssl_channel_credentials(issued.ca, issued.key, issued.certificate)


def message_batch(values: Sequence[int], payload_bytes: int = 48, scope: Scope = SCOPE) -> EncodedBatch:
    """A message per value: bit ``value % 128`` set, the value in its id, a random payload."""
    bits = np.zeros((len(values), WORDS), np.uint64)
    numbers = np.asarray(values) % 128
    bits[np.arange(len(values)), numbers // 64] = np.uint64(1) << (numbers % 64).astype(np.uint64)
    ids = [int(value).to_bytes(8, "big") + os.urandom(8) for value in values]
    return EncodedBatch.of(scope, bits, ids, [os.urandom(payload_bytes) for _ in values])


def filters_for(values: Sequence[int], scope: Scope = SCOPE) -> EncodedFilters:
    """A filter per value: matches messages of that value (modulo 128)."""
    return EncodedFilters(scope, message_batch(values).bits)


def values_of(batch: EncodedBatch) -> list[int]:
    """The values that ``message_batch`` put into ids."""
    return [int.from_bytes(bytes(row[:8]), "big") for row in batch.ids]


class RawClient:
    """One session; frames that nobody waits for are kept."""

    def __init__(
        self,
        target: str,
        credentials: grpc.ChannelCredentials | None = None,
        options: Sequence[tuple[str, int]] = (),
    ) -> None:
        if credentials is None:
            self.channel = grpc.aio.insecure_channel(target, options=[*_OPTIONS, *options])
        else:
            self.channel = grpc.aio.secure_channel(target, credentials, options=[*_OPTIONS, *options])
        serialize, parse = gateway_pb2.ClientFrame.SerializeToString, gateway_pb2.RouterFrame.FromString
        self.call = self.channel.stream_stream(METHOD, serialize, parse)()
        self.kept: list[frames.RouterFrame] = []
        self.reading = True
        """Turn off to be a client that never reads."""
        self._arrived: asyncio.Queue[frames.RouterFrame | BaseException | None] = asyncio.Queue()
        self._reader = asyncio.create_task(self._read())
        self.sequence = 0
        self.request = 0
        self.welcome: frames.Welcome | None = None

    async def __aenter__(self) -> RawClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Drop the connection without a goodbye."""
        self._reader.cancel()
        self.call.cancel()
        await self.channel.close()

    async def _read(self) -> None:
        # A task of its own: cancelling a read (as a timeout does) would cancel the whole call.
        try:
            while True:
                while not self.reading:
                    await asyncio.sleep(0.05)
                message = await self.call.read()
                if message is grpc.aio.EOF:
                    break
                self._arrived.put_nowait(decode_router_frame(message))
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            self._arrived.put_nowait(error)
        self._arrived.put_nowait(None)

    async def send(self, frame: frames.ClientFrame) -> None:
        await self.call.write(encode_client_frame(frame))

    async def read(self, timeout_s: float = 20.0) -> frames.RouterFrame | None:
        frame = await asyncio.wait_for(self._arrived.get(), timeout_s)
        if isinstance(frame, BaseException):
            raise frame
        return frame

    async def expect(self, kind: type[F], timeout_s: float = 20.0) -> F:
        """The next frame of a kind; others are kept, pings answered."""
        for index, frame in enumerate(self.kept):
            if isinstance(frame, kind):
                return self.kept.pop(index)  # type: ignore[return-value]
        deadline = time.monotonic() + timeout_s
        while True:
            frame = await self.read(max(0.01, deadline - time.monotonic()))
            if isinstance(frame, frames.Ping):
                await self.send(frames.Pong(frame.nonce))
            elif isinstance(frame, kind):
                return frame
            elif frame is None:
                raise AssertionError(f"the stream ended before a {kind.__name__}; kept: {self.kept}")
            else:
                self.kept.append(frame)

    async def hello(self, credit: frames.Credit = PLENTY, **options: Any) -> frames.Welcome:
        await self.send(frames.Hello(software="raw", credit=credit, **options))
        self.welcome = await self.expect(frames.Welcome)
        return self.welcome

    async def subscribe(
        self, subscription: int, *filters: EncodedFilters, durable: frames.Durable | None = None
    ) -> frames.SubscribeResult:
        self.request += 1
        await self.send(frames.Subscribe(self.request, subscription, filters, durable))
        return await self.expect(frames.SubscribeResult)

    async def unsubscribe(self, subscription: int, *scopes: Scope, delete: bool = False) -> frames.UnsubscribeResult:
        self.request += 1
        await self.send(frames.Unsubscribe(self.request, subscription, scopes, delete))
        return await self.expect(frames.UnsubscribeResult)

    async def publish(
        self, batch: EncodedBatch, mode: frames.Mode = frames.Mode.AT_LEAST_ONCE, ttl_ms: int = 0
    ) -> frames.PublishResult:
        await self.publish_only(batch, mode, ttl_ms)
        (result,) = (await self.expect(frames.PublishResults)).results
        assert result.sequence == self.sequence
        return result

    async def publish_only(
        self, batch: EncodedBatch, mode: frames.Mode = frames.Mode.AT_LEAST_ONCE, ttl_ms: int = 0
    ) -> None:
        self.sequence += 1
        await self.send(frames.Publish(self.sequence, mode, batch, ttl_ms))

    async def collect(self, count: int, subscription: int = 0, timeout_s: float = 20.0) -> list[frames.Slice]:
        """Slices of a subscription until they hold ``count`` messages."""
        slices: list[frames.Slice] = []
        while sum(len(part.batch) for part in slices) < count:
            delivery = await self.expect(frames.Delivery, timeout_s)
            if delivery.subscription == subscription:
                slices += delivery.slices
        return slices

    async def values(self, count: int, subscription: int = 0, timeout_s: float = 20.0) -> list[int]:
        return [v for part in await self.collect(count, subscription, timeout_s) for v in values_of(part.batch)]

    async def nothing_more(self, wait_s: float = 0.3) -> bool:
        """No delivery comes within this time."""
        try:
            await self.expect(frames.Delivery, wait_s)
        except TimeoutError:
            return True
        return False

    async def ack(self, subscription: int, up_to: int = 0, runs: frames.Runs = (), **options: Any) -> None:
        """Acknowledge and wait until it is on disk."""
        self.request += 1
        await self.send(frames.Ack(subscription, up_to, runs, request=self.request, **options))
        result = await self.expect(frames.AckResult)
        assert result.request == self.request


def durable(name: int = 1, **options: Any) -> frames.Durable:
    """A durable subscription's options with plenty of credit."""
    return frames.Durable(bytes([name]) * limits.DURABLE_NAME_BYTES, **{"credit": PLENTY, **options})
