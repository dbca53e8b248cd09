"""The SDK: connect, publish, subscribe.

TRUSTED side, I/O. Everything is encoded and sealed before it leaves, and opened, verified and matched exactly after it
came, so that routers in between learn nothing and applications never see a false positive. docs/sdk.md tells more.
"""

from secroute.client.blocking import BlockingClient, BlockingMessage, BlockingSubscription, connect_blocking
from secroute.client.client import Client, connect
from secroute.client.durables import DurableState
from secroute.client.identity import TlsIdentity
from secroute.client.options import Options
from secroute.client.stats import ClientStats
from secroute.client.subscription import Gap, ReceivedMessage, Subscription

__all__ = [
    "BlockingClient",
    "BlockingMessage",
    "BlockingSubscription",
    "Client",
    "ClientStats",
    "DurableState",
    "Gap",
    "Options",
    "ReceivedMessage",
    "Subscription",
    "TlsIdentity",
    "connect",
    "connect_blocking",
]
