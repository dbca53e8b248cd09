"""In a worker: one block of predicates as an exact and an encoded table, built once and kept between tasks.

TRUSTED side. Predicate sets larger than memory are cut into blocks; a worker holds one block at a time. Blocks are
read from the run's own folder, which every worker sees (as Spark's own output must be).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from secroute.audit.vertical import VerticalTable
from secroute.content import parse
from secroute.engine.table import ForwardingTable
from secroute.engine.types import Csr
from secroute.exact.table import ExactTable

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Block:
    """The predicates of one block: their row numbers, interfaces, and both tables over them."""

    ids: list[str]
    predicates: list[str]
    names: list[str]
    """Interfaces by their number within the block."""
    interface: npt.NDArray[np.int32]
    owner: npt.NDArray[np.int32]
    """Which predicate each encoded row belongs to."""
    encoded: Matching
    exact: ExactTable

    def __len__(self) -> int:
        return len(self.ids)


def words_of(column: Any, words: int) -> npt.NDArray[np.uint64]:
    """A binary column of encoded bits as ``uint64[n, W]``."""
    data = b"".join(column.to_pylist())
    return np.frombuffer(data, "<u8").reshape(-1, words).copy()


@dataclass(frozen=True)
class Source:
    """Where a run keeps what a worker builds its tables from."""

    predicates: str
    filters: str
    encoded: str
    words: int
    engine: str = "auto"


def some_messages(encoded: str, words: int, most: int = 2_000) -> npt.NDArray[np.uint64] | None:
    """The bits of a few messages, from whose frequencies the forwarding table may learn."""
    for file in sorted(Path(encoded).glob("*.parquet")):
        for batch in pq.ParquetFile(file).iter_batches(most, columns=["bits"]):
            return words_of(batch.column("bits"), words)
    return None


@lru_cache(maxsize=1)
def load_block(source: Source, block: int) -> Block:
    """Build the tables of a block from its folders of Parquet."""
    predicates, filters, words = source.predicates, source.filters, source.words
    listed = pq.read_table(f"{predicates}/block={block}", columns=["interface", "predicate", "row"]).sort_by("row")
    rows = pq.read_table(f"{filters}/block={block}", columns=["row", "bits"])
    places = {row: place for place, row in enumerate(listed["row"].to_pylist())}
    owner = np.array([places[row] for row in rows["row"].to_pylist()], np.int32)
    names, interface = np.unique(np.array(listed["interface"].to_pylist(), dtype=str), return_inverse=True)
    texts = listed["predicate"].to_pylist()
    bits = words_of(rows["bits"], words)
    return Block(
        [str(row) for row in places],
        texts,
        names.tolist(),
        interface.astype(np.int32),
        owner,
        encoded_table(bits, source),
        ExactTable.build([parse(text) for text in texts], engine="pivot"),
    )


class Matching(Protocol):
    """Whatever finds the filter rows of messages."""

    def match_filters(self, bits: npt.NDArray[np.uint64]) -> Csr:
        """The filter rows that match each message."""


def encoded_table(bits: npt.NDArray[np.uint64], source: Source) -> Matching:
    """Filter rows ready for messages: by planes of bits, or (if one is named) by an engine of the routers'."""
    if source.engine == "auto":
        return VerticalTable(bits)
    return ForwardingTable.build(
        bits,
        np.zeros(len(bits), np.int64),
        engine=source.engine,
        rounds=0,
        match_all=True,
        messages=some_messages(source.encoded, source.words),
    )


@nb.njit(nogil=True, cache=True)
def tally(
    enc_offsets: Any,
    enc_rows: Any,
    owner: Any,
    exact_offsets: Any,
    exact_rows: Any,
    interface: Any,
    sizes: Any,
    counts: Any,
    per_interface: Any,
    per_message: Any,
) -> tuple[int, int]:
    """Add one batch to the counts; returns (message, predicate) of the first false negative, or (-1, -1).

    ``counts[p]``: exact, encoded, false negatives. ``per_interface[i]``: exact, encoded deliveries, extra bytes.
    ``per_message[j]``: exact and encoded matches. Marks hold the last message seen, so nothing is ever cleared.
    """
    predicates, interfaces = len(counts), len(per_interface)
    seen = np.full(predicates, -1, np.int64)
    sent = np.full(interfaces, -1, np.int64)
    due = np.full(interfaces, -1, np.int64)
    missed = (-1, -1)
    for message in range(len(enc_offsets) - 1):
        for at in range(exact_offsets[message], exact_offsets[message + 1]):
            p = exact_rows[at]
            counts[p, 0] += 1
            per_message[message, 0] += 1
            i = interface[p]
            if due[i] != message:
                due[i] = message
                per_interface[i, 0] += 1
        for at in range(enc_offsets[message], enc_offsets[message + 1]):
            p = owner[enc_rows[at]]
            if seen[p] != message:
                seen[p] = message
                counts[p, 1] += 1
                per_message[message, 1] += 1
                i = interface[p]
                if sent[i] != message:
                    sent[i] = message
                    per_interface[i, 1] += 1
                    if due[i] != message:
                        per_interface[i, 2] += sizes[message]
        for at in range(exact_offsets[message], exact_offsets[message + 1]):
            p = exact_rows[at]
            if seen[p] != message:
                counts[p, 2] += 1
                if missed[0] < 0:
                    missed = (message, p)
    return missed
