"""The encode job: messages and predicates become bits in the workers, with keys read there from a 0600 file.

TRUSTED side. Output is Parquet: the message's attributes beside its bits (the exact engine needs them), and the filters
of every predicate by block. Nothing of a key is in what travels: a path and a public profile.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from secroute.audit.keys import encoder, token_keys
from secroute.content import parse

ENCODED = "id string, attributes string, names int, size int, bits binary"
FILTERS = "row long, bits binary, block int"


def binary(bits: Any) -> pa.Array:
    """Encoded bits as a binary column."""
    width = bits.shape[1] * 8
    data = np.ascontiguousarray(bits).tobytes()
    return pa.array([data[at : at + width] for at in range(0, len(data), width)], pa.binary())


def message_seed(key: bytes, seed: int, first_id: str) -> bytes:
    """Fresh but repeatable randomness for the hardening of one batch: keyed, so that it tells nobody anything."""
    return hashlib.blake2b(f"{seed}/{first_id}".encode(), key=key, digest_size=32).digest()


def encode_messages(key_path: str, profile: bytes, seed: int) -> Any:
    """A ``mapInArrow`` function: adds the bits of each message."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here = encoder(key_path, profile)
        for batch in batches:
            if not batch.num_rows:
                continue
            attributes = [json.loads(text) for text in batch.column("attributes").to_pylist()]
            own = message_seed(token_keys(key_path, profile).hardening_key(), seed, f"{batch.column('id')[0]}")
            bits = here.encode_messages(attributes, own)
            columns = [batch.column(name) for name in ("id", "attributes", "names", "size")]
            yield pa.RecordBatch.from_arrays([*columns, binary(bits)], ["id", "attributes", "names", "size", "bits"])

    return run


def encode_predicates(key_path: str, profile: bytes) -> Any:
    """A ``mapInArrow`` function: the filters of each predicate, one row a disjunct."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here = encoder(key_path, profile)
        for batch in batches:
            nodes = [parse(text) for text in batch.column("predicate").to_pylist()]
            bits, owners = here.encode_predicates(nodes, match_all=True)
            rows = np.asarray(batch.column("row"))[owners]
            blocks = np.asarray(batch.column("block"))[owners]
            yield pa.RecordBatch.from_arrays(
                [pa.array(rows), binary(bits), pa.array(blocks, pa.int32())], ["row", "bits", "block"]
            )

    return run
