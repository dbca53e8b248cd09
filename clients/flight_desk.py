"""A flight desk: print the offers it is looking for, and miss none while it is closed for the night.

python clients/flight_desk.py --router HOST:PORT --keyring FILE --tls DIR --name NAME "dest = 'ATL' AND price < 500"
"""

from __future__ import annotations

import argparse
import asyncio

from secroute.client import TlsIdentity, connect
from secroute.errors import GapError


async def main() -> None:
    parser = argparse.ArgumentParser(description="print the flight offers that match a predicate")
    parser.add_argument("--router", required=True)
    parser.add_argument("--keyring", required=True)
    parser.add_argument("--tls", required=True, help="directory with ca.crt, NAME.crt and NAME.key")
    parser.add_argument("--name", required=True)
    parser.add_argument("--quiet-s", type=float, default=2.0, help="leave after so many seconds without an offer")
    parser.add_argument("predicate")
    args = parser.parse_args()

    identity = TlsIdentity.named(args.tls, args.name)
    seen = 0
    async with connect(args.router, keyring=args.keyring, identity=identity) as client:
        async with client.subscribe(args.predicate, durable=args.name) as offers:
            while True:
                try:
                    offer = await offers.next(args.quiet_s)
                except GapError as gap:  # the router had to let some go, and says so
                    print(f"missed: {gap}")
                    continue
                if offer is None:
                    break
                seen += 1
                print(" ".join(f"{name}={value}" for name, value in offer.attributes.items()))
                await offer.ack()
        print(f"{seen} offers; {client.stats.false_positives} that the router sent in vain")


if __name__ == "__main__":
    asyncio.run(main())
