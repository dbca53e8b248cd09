"""Load: publish at a rate, subscribe to a share of it, print what came and how fast, as one line of JSON.

python clients/load_generator.py --router HOST:PORT --keyring FILE --tls DIR --name NAME --rate 500 --seconds 5
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

from secroute.client import Client, Subscription, TlsIdentity, connect

STEP_S = 0.05


async def publish(client: Client, rate: float, seconds: float, best_effort: bool) -> int:
    sent, started = 0, time.monotonic()
    while (elapsed := time.monotonic() - started) < seconds:
        due = int(rate * min(elapsed + STEP_S, seconds)) - sent
        messages = [{"n": sent + n, "lane": (sent + n) % 10, "at": time.time()} for n in range(due)]
        sent += await client.publish_many(messages, best_effort=best_effort)
        await asyncio.sleep(max(0.0, started + elapsed + STEP_S - time.monotonic()))
    return sent


async def read(messages: Subscription, delays: list[float]) -> None:
    async for message in messages:
        delays.append(time.time() - float(message.attributes["at"]))
        await message.ack()


async def main() -> None:
    parser = argparse.ArgumentParser(description="publish at a rate and measure what comes back")
    parser.add_argument("--router", required=True)
    parser.add_argument("--keyring", required=True)
    parser.add_argument("--tls", required=True, help="directory with ca.crt, NAME.crt and NAME.key")
    parser.add_argument("--name", required=True)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--best-effort", action="store_true")
    args = parser.parse_args()

    identity, delays = TlsIdentity.named(args.tls, args.name), list[float]()
    async with (
        connect(args.router, keyring=args.keyring, identity=identity) as client,
        client.subscribe("lane = 3") as messages,
    ):
        reader = asyncio.create_task(read(messages, delays))
        sent = await publish(client, args.rate, args.seconds, args.best_effort)
        wanted = sum(n % 10 == 3 for n in range(sent))
        end = time.monotonic() + 10
        while len(delays) < wanted and time.monotonic() < end:
            await asyncio.sleep(0.02)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
    delays.sort()
    result = {"published": sent, "wanted": wanted, "delivered": len(delays), "missing": wanted - len(delays)}
    if delays:
        result |= {f"p{share}_ms": round(delays[len(delays) * share // 101] * 1000, 2) for share in (50, 99)}
    print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main())
