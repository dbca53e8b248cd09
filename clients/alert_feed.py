"""Security alerts for several responders who share the work, with the blocking client.

python clients/alert_feed.py publish --router HOST:PORT --keyring FILE --tls DIR --name NAME < alerts.jsonl
python clients/alert_feed.py respond --router HOST:PORT --keyring FILE --tls DIR --name NAME
"""

from __future__ import annotations

import argparse
import json
import sys

from secroute.client import BlockingClient, TlsIdentity, connect_blocking

WANTED = "class = 'alert' AND severity >= 3 AND NOT device LIKE 'test-%'"


def publish(client: BlockingClient) -> None:
    published = client.publish_many(json.loads(line) for line in sys.stdin if line.strip())
    print(f"published {published}")


def respond(client: BlockingClient, quiet_s: float) -> None:
    """Take alerts until it is quiet. What fails is tried again, by us or by another responder."""
    handled = 0
    with client.subscribe(WANTED, durable="responders", shared=True, ack_timeout_s=10, tries_max=3) as alerts:
        while (alert := alerts.next(quiet_s)) is not None:
            if alert.attributes.get("device") == "unknown":
                alert.reject()  # nobody can do anything about it: to the dead letters
            elif alert.attributes.get("flaky") and not alert.redelivered:
                alert.retry()
            else:
                print(f"severity {alert.attributes['severity']} on {alert.attributes['device']}")
                alert.ack()
                handled += 1
    print(f"handled {handled}")


def main() -> None:
    parser = argparse.ArgumentParser(description="publish security alerts, or respond to them")
    parser.add_argument("what", choices=("publish", "respond"))
    parser.add_argument("--router", required=True)
    parser.add_argument("--keyring", required=True)
    parser.add_argument("--tls", required=True, help="directory with ca.crt, NAME.crt and NAME.key")
    parser.add_argument("--name", required=True)
    parser.add_argument("--quiet-s", type=float, default=2.0, help="respond: leave after so many quiet seconds")
    args = parser.parse_args()

    identity = TlsIdentity.named(args.tls, args.name)
    with connect_blocking(args.router, keyring=args.keyring, identity=identity) as client:
        if args.what == "publish":
            publish(client)
        else:
            respond(client, args.quiet_s)


if __name__ == "__main__":
    main()
