"""Publish made-up flight offers.

python clients/flight_offers.py --router HOST:PORT --keyring FILE --tls DIR --name NAME
"""

from __future__ import annotations

import argparse
import asyncio
import random

from secroute.client import TlsIdentity, connect

AIRPORTS = ("ATL", "JFK", "SFO", "SEA", "ORD", "DEN")


def offer(number: int, chance: random.Random) -> dict[str, str | int]:
    return {
        "number": number,
        "dest": chance.choice(AIRPORTS),
        "price": chance.randrange(40, 1500),
        "airline": chance.choice(("DL", "UA", "AA")),
    }


async def main() -> None:
    parser = argparse.ArgumentParser(description="publish made-up flight offers")
    parser.add_argument("--router", required=True)
    parser.add_argument("--keyring", required=True)
    parser.add_argument("--tls", required=True, help="directory with ca.crt, NAME.crt and NAME.key")
    parser.add_argument("--name", required=True)
    parser.add_argument("--count", type=int, default=100)
    args = parser.parse_args()

    chance = random.Random(args.count)  # noqa: S311 - made-up offers
    identity = TlsIdentity.named(args.tls, args.name)
    async with connect(args.router, keyring=args.keyring, identity=identity) as client:
        published = await client.publish_many(offer(number, chance) for number in range(args.count))
    print(f"published {published} offers; every one is on the router's disk for the desks that want it")


if __name__ == "__main__":
    asyncio.run(main())
