"""A publisher or a durable consumer in a process of its own, which writes down what it knows before anybody kills it.

python -m tests.integration.soak.worker publish TARGET KEYRING TLS LOG
python -m tests.integration.soak.worker consume TARGET KEYRING TLS LOG NAME PREDICATE
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from secroute.client import Options, TlsIdentity, connect
from secroute.errors import ClientError

OPTIONS = Options(
    backoff_first_s=0.02,
    backoff_max_s=0.2,
    keyring_poll_s=0.2,
    attempt_timeout_s=1.0,
    connect_timeout_s=60.0,
    publish_timeout_s=120.0,
    batch_messages=32,
)


class Diary:
    """Lines that survive a kill: one unbuffered write each."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.write("start", os.getpid())

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


async def publish(target: str, keyring: str, identity: TlsIdentity, diary: Diary) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    number = 0
    async with connect(target, keyring=keyring, identity=identity, options=OPTIONS) as client:
        while not stop.is_set():
            block = range(number, number + 20)
            number += 20
            await client.publish_many({"n": n, "even": n % 2 == 0, "third": n % 3} for n in block)
            for n in block:
                diary.write("published", n)
            await asyncio.sleep(0.05)
    diary.write("end")


async def consume(target: str, keyring: str, identity: TlsIdentity, diary: Diary, name: str, predicate: str) -> None:
    async with connect(target, keyring=keyring, identity=identity, options=OPTIONS) as client:
        async with client.subscribe(predicate, durable=name) as messages:
            diary.write("attached")
            while True:
                block = [await messages.__anext__()]
                while len(block) < 50 and (more := await messages.next(0.005)) is not None:
                    block.append(more)
                for message in block:
                    diary.write("got", message.attributes["n"], int(message.redelivered), message.epoch)
                for message in block:
                    await message.ack()
                try:
                    await messages.flush()
                except ClientError:
                    continue  # not confirmed: not written down as acked
                for message in block:
                    diary.write("acked", message.attributes["n"])


def main() -> None:
    role, target, keyring, tls, log, *rest = sys.argv[1:]
    identity = TlsIdentity.named(tls, "soak")
    diary = Diary(Path(log))
    work = publish if role == "publish" else consume
    asyncio.run(work(target, keyring, identity, diary, *rest))


if __name__ == "__main__":
    main()
