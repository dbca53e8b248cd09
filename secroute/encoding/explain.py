"""Explain, for a person, how a predicate is encoded and what that costs.

TRUSTED, pure. Bits depend on the key only by chance collisions, so a throw-away key serves as well as a real one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from secroute import limits
from secroute.content.predicate import Node
from secroute.content.render import render
from secroute.encoding.encoder import CoarsenedPredicateWarning, Encoder, TokenKeys
from secroute.encoding.plan import Plan
from secroute.encoding.profile import Profile, expected_fill, schema_tokens
from secroute.encoding.tokens import describe
from secroute.errors import InputError

_SHOWN = 32


def explain(predicate: Node, profile: Profile, keys: TokenKeys, message_tokens: Sequence[int] = ()) -> Iterator[str]:
    """Lines of text: the DNF, tokens, degradations, bits, and the expected rate of false positives."""
    if any(not 1 <= count <= limits.EXPLAIN_TOKENS_MAX for count in message_tokens):
        raise InputError(f"a message has from 1 to {limits.EXPLAIN_TOKENS_MAX} tokens")
    encoder = Encoder(profile, keys)
    plans = encoder.plans(predicate)
    with warnings.catch_warnings(record=True) as coarsened:
        warnings.simplefilter("always", CoarsenedPredicateWarning)
        filters = encoder.encode_predicate(predicate, match_all=True)
    yield f"predicate   {render(predicate)}"
    yield (
        f"profile     {profile.bits} bits, {profile.hashes} hashes, "
        f"{len(profile.schema.attributes)} indexed attributes, digest {profile.digest.hex()[:16]}"
    )
    yield f"normal form {len(plans)} alternative{'s' if len(plans) != 1 else ''}"
    for number, each in enumerate(plans[:_SHOWN], 1):
        yield ""
        yield from _alternative(number, each)
    if len(plans) > _SHOWN:
        yield f"... and {len(plans) - _SHOWN} more alternatives"
    yield ""
    for warning in coarsened:
        yield f"warning     {warning.message}"
    counts = [int(n) for n in np.bitwise_count(filters.bits).sum(axis=1)]
    shown = ", ".join(map(str, counts[:_SHOWN])) + (", ..." if len(counts) > _SHOWN else "")
    yield f"encoded     {len(counts)} filter{'s' if len(counts) != 1 else ''}, bits set: {shown or 'none'}"
    if not counts:
        yield "no message can match"
        return
    yield from _rates(profile, counts, message_tokens)
    degraded = sum(1 for each in plans for _, pieces in each.pieces for piece in pieces if piece.note)
    if degraded or coarsened:
        what = "coarsening" if coarsened else f"the {degraded} noted above"
        yield f"by chance alone, that is; {what} let{'s' if coarsened else ''} more through,"
        yield "and the subscriber's exact match removes it again"


def _alternative(number: int, each: Plan) -> Iterator[str]:
    yield f"alternative {number}: {' AND '.join(render(c) for c in each.conjunction)}"
    if each.never:
        yield f"  dropped: {each.never}"
        return
    for name, pieces in each.pieces:
        for piece in pieces:
            yield f"  {' AND '.join(render(c) for c in piece.constraints)}"
            asked = [" and ".join(sorted(map(describe, choice))) for choice in piece.alternatives]
            yield f"    asks for: {name} {' or '.join(asked)}" if any(piece.alternatives) else "    asks for: nothing"
            if piece.note:
                yield f"    note: {piece.note}"
    if not all(each.asks):
        yield "  warning: nothing is asked for, so this alternative matches every message (needs match_all)"


def _rates(profile: Profile, counts: list[int], message_tokens: Sequence[int]) -> Iterator[str]:
    """False positives of a message that does not match, if bits were independent."""
    typical = message_tokens or sorted({20, 50, schema_tokens(profile.schema), 200})
    for tokens in typical:
        fill = expected_fill(profile, tokens)
        certain = any(fill**count >= 1.0 for count in counts)
        # log1p and expm1 keep rates that are far below the resolution of 1 - x.
        rate = 1.0 if certain else -math.expm1(sum(math.log1p(-(fill**count)) for count in counts))
        yield f"expected false positives, message of {tokens:>3} tokens (fill {fill:.2f}): {rate:.2e}"
