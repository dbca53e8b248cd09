"""``secroute bench encode``: batch encoding beside a naive per-message encoder, in one run on one core."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from secroute.content.model import Value
from secroute.encoding.bloom import as_digests, digest_tokens, positions
from secroute.encoding.encoder import Encoder
from secroute.encoding.profile import Profile
from secroute.encoding.tokens import value_tokens
from secroute.keyring.tokens import throwaway_token_keys
from secroute.output import emit_json, say

_NUMBERS, _TEXTS, _PLAIN = 5, 2, 3
Encode = Callable[[list[dict[str, Value]]], object]


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments."""
    parser.add_argument("--messages", type=int, default=40_960, help="messages encoded for each figure")
    parser.add_argument("--batch", type=int, default=4_096, help="messages in a batch")
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(run=run)


def indexed_profile() -> Profile:
    """Five numeric attributes of 2**16 buckets and two string ladders among ten attributes, fill about one half."""
    tables: dict[str, Any] = {
        f"number{i}": {"type": "number", "low": 0, "high": 1_000_000, "buckets": 1 << 16} for i in range(_NUMBERS)
    }
    tables |= {f"text{i}": {"type": "string", "prefixes": [1, 2, 3, 4, 6, 8]} for i in range(_TEXTS)}
    return Profile.from_dict({"attributes": tables})


def workload(count: int, seed: int) -> list[dict[str, Value]]:
    """Messages of ten attributes with Zipf values (exponent 1.2, a million numbers and 100 000 words)."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Value]] = {}
    for i in range(_NUMBERS):
        columns[f"number{i}"] = (rng.zipf(1.2, count) % 1_000_001).tolist()
    for i in range(_TEXTS + _PLAIN):
        name = f"text{i}" if i < _TEXTS else f"plain{i}"
        columns[name] = [f"word-{n:05d}" for n in (rng.zipf(1.2, count) % 100_000).tolist()]
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _naive(profile: Profile, keys: Any) -> Encode:
    """The obvious encoder: every token of every message is made, hashed and set by itself."""

    def encode(messages: list[dict[str, Value]]) -> None:
        for message in messages:
            bits = 0
            for name, value in message.items():
                said = value_tokens(profile.schema, name, value)
                where = positions(as_digests(digest_tokens(keys.token_key(name), said)), profile.bits, profile.hashes)
                for position in where.ravel().tolist():
                    bits |= 1 << position
            np.frombuffer(bits.to_bytes(profile.bits // 8, "little"), "<u8")

    return encode


def _batch_encoder(profile: Profile, keys: Any) -> Encode:
    return Encoder(profile, keys).encode_messages


def _rate(make: Callable[[], Encode], messages: list[dict[str, Value]], batch: int) -> float:
    """The best of three passes, each with a fresh encoder, so that nothing is remembered from an earlier pass."""
    best = 0.0
    for _ in range(3):
        encode = make()
        start = time.perf_counter()
        for at in range(0, len(messages), batch):
            encode(messages[at : at + batch])
        best = max(best, len(messages) / (time.perf_counter() - start))
    return best


def run(args: argparse.Namespace) -> int:
    """Measure and print; speed is the best of three passes for every encoder alike."""
    messages = workload(args.messages, args.seed)
    result: dict[str, Any] = {"batch": args.batch, "messages": args.messages}
    for label, profile in (("equality", Profile(bits=192, hashes=4)), ("ranges", indexed_profile())):
        keys = throwaway_token_keys(profile)
        encoder = Encoder(profile, keys)
        fast = _rate(partial(_batch_encoder, profile, keys), messages, args.batch)
        slow = _rate(partial(_naive, profile, keys), messages[:1024], args.batch)
        first = encoder.tokenise_messages(messages[: args.batch])
        say(f"{label}: {fast:,.0f} messages a second, naive {slow:,.0f}, {profile.bits} bits")
        result[f"{label}_messages_per_s"] = round(fast)
        result[f"naive_{label}_messages_per_s"] = round(slow)
        result[f"{label}_speedup_over_naive"] = round(fast / slow, 1)
        result[f"{label}_bits"] = profile.bits
        result[f"{label}_distinct_tokens"] = len(first.digests)
        result[f"{label}_tokens_per_message"] = round(float(first.token_counts().mean()), 1)
    result["naive_messages_per_s"] = result["naive_ranges_messages_per_s"]
    result["speedup_over_naive"] = min(result["equality_speedup_over_naive"], result["ranges_speedup_over_naive"])
    result["distinct_tokens"] = result["ranges_distinct_tokens"]
    emit_json(result)
    return 0
