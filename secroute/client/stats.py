"""What one client has done so far; plain counters, read them at any time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ClientStats:
    """Counters of one client since it was made."""

    published: int = 0
    """Messages with a good result."""
    publish_failed: int = 0
    publish_resent: int = 0
    """Messages sent again after a lost connection or a refusal that may be repeated."""
    publish_duplicates: int = 0
    """Messages that the router had taken before (a lost result, sent again)."""
    received: int = 0
    """Messages that came from routers, whatever became of them."""
    delivered: int = 0
    """Messages handed to the application (once for each subscription that wanted them)."""
    false_positives: int = 0
    """Messages that a router sent and no predicate wants: the price of bits."""
    spooled_unwanted: int = 0
    """Messages kept without matching while this subscription was offline through a rotation, and not wanted."""
    duplicates: int = 0
    """Messages that came again and were suppressed."""
    redelivered: int = 0
    """Messages handed to the application that may have been delivered before (to an earlier process)."""
    rejected: int = 0
    """Payloads that did not open: changed on the way, under a foreign header, or of a publisher not accepted."""
    unknown_epoch: int = 0
    """Messages of an epoch that the keyring does not hold (yet)."""
    gaps: int = 0
    """Times that messages were not kept for one of our subscriptions."""
    connects: int = 0
    resumes: int = 0
    """Connections that took an earlier session over without a loss."""
