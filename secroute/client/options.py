"""What an application may tune, with defaults that suit a desk as well as a feed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from secroute import limits
from secroute.errors import LimitError


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of one client."""

    batch_messages: int = 256
    """A batch goes out when it has this many messages, ..."""
    batch_bytes: int = 1_048_576
    """... or bodies of this many bytes, ..."""
    linger_s: float = 0.002
    """... or when its first message has waited this long."""
    publish_timeout_s: float = 30.0
    """A message without a result for so long is given up (its outcome may be unknown)."""
    request_timeout_s: float = 30.0
    """How long a subscription may take to become active."""
    connect_timeout_s: float = 10.0
    """How long the first connection may take, all addresses together."""
    attempt_timeout_s: float = 3.0
    """How long one attempt at one address may take."""
    backoff_first_s: float = 0.05
    backoff_max_s: float = 5.0
    credit_messages: int = 4_096
    """Messages that may be on their way to the application, for each durable and for all ordinary subscriptions."""
    credit_bytes: int = 16 * 1_048_576
    ack_linger_s: float = 0.005
    ack_messages: int = 256
    keyring_poll_s: float = 2.0
    """How often the keyring's file is looked at for a new epoch."""
    sign: bool = False
    """Sign every message with the keyring's identity (proves the publisher, not only membership)."""
    require_signature: bool = False
    publishers: Collection[bytes] | None = None
    """The only publishers whose messages are accepted (Ed25519 public keys); None: every member."""

    def __post_init__(self) -> None:
        for name, most in (
            ("batch_messages", limits.BATCH_MESSAGES_MAX),
            ("batch_bytes", limits.BATCH_PAYLOAD_BYTES_MAX // 2),
            ("credit_messages", limits.CREDIT_MESSAGES_MAX // 2),
            ("credit_bytes", limits.CREDIT_BYTES_MAX // 2),
            ("ack_messages", limits.ACK_RUNS_MAX),
        ):
            if not 1 <= getattr(self, name) <= most:
                raise LimitError(f"{name} is 1..{most}, not {getattr(self, name)}")
