"""``secroute bench exact``: the plaintext engines on files, or on the workloads of the papers.

``us_per_message`` is matching alone: from a columnar batch to the result, with every name and value of the batch looked
up. ``us_per_message_with_parsing`` starts from JSON text. ``build_s`` starts from parsed predicates (trees of Python
objects) and ends with a table that has answered one message.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from secroute.bench.workloads import Sigcomm, trees
from secroute.bench.workloads_icse import SCHEMA, Icse
from secroute.content.files import message_of, read_messages, read_predicates
from secroute.content.model import Message
from secroute.content.predicate import Node, constraints
from secroute.errors import InputError
from secroute.exact import Csr, ExactTable, MessageBatch
from secroute.exact.semantics import Semantics
from secroute.output import emit_json, say

if TYPE_CHECKING:
    from secroute.exact import BddTable

_MEASURE_S = 1.0
_RUNS_MAX = 101


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured: parsed predicates with their interfaces, and parsed messages."""

    predicates: list[Node]
    ids: Sequence[str] | None
    interfaces: list[int]
    interface_names: Sequence[str] | None
    messages: list[Message]
    constraints: int


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the benchmark."""
    parser.add_argument("--messages", type=Path, help="messages, JSONL or Parquet")
    parser.add_argument("--predicates", type=Path, help="predicates, JSONL or Parquet")
    parser.add_argument("--engine", default="auto", choices=["auto", "counting", "pivot", "bdd", "oracle"])
    parser.add_argument("--one-filter-per-interface", action="store_true", help="each predicate is its own interface")
    parser.add_argument("--rounds", type=int, default=10, help="selectivity rounds of the counting engine")
    parser.add_argument("--no-masks", action="store_true", help="count without the name masks")
    parser.add_argument("--semantics", default=None, choices=["open", "simple", "strict", "default"], help="of the BDD")
    parser.add_argument("--generate", choices=["sigcomm", "icse"], help="a workload of the papers instead of files")
    parser.add_argument("--constraints", type=int, default=100_000, help="sigcomm: constraints in the table")
    parser.add_argument("--interfaces", type=int, default=20, help="sigcomm: interfaces")
    parser.add_argument("--queries", type=int, default=10_000, help="icse: queries")
    parser.add_argument("--density", type=float, default=1.0, help="icse: share of the attributes a message defines")
    parser.add_argument("--count", type=int, default=1_000, help="messages to generate")
    parser.add_argument("--repeat", type=int, default=3, help="the median of at least so many runs is printed")
    parser.add_argument("--out", type=Path, help="write the matches as JSONL")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Build, match, print."""
    _check(args)
    case = _case(args)
    gc.freeze()  # millions of parsed predicates are not garbage; do not look through them while measuring
    try:
        result = measure(case, args)
    finally:
        gc.unfreeze()
    if args.out is not None:
        _write(args.out, case, result.pop("found"))
    result.pop("found", None)
    emit_json(result)
    return 0


def _check(args: argparse.Namespace) -> None:
    for option in ("constraints", "interfaces", "queries", "count", "repeat"):
        if getattr(args, option) < 1:
            raise InputError(f"--{option} is {getattr(args, option)}; it must be at least 1")
    if args.rounds < 0:
        raise InputError(f"--rounds is {args.rounds}; it must not be negative")
    if not 0.0 < args.density <= 1.0:
        raise InputError(f"--density is {args.density}; it must be above 0 and at most 1")


def _case(args: argparse.Namespace) -> Case:
    if args.generate == "sigcomm":
        workload = Sigcomm()
        say(f"generating {args.constraints} constraints")
        columns = workload.filters(args.constraints)
        interfaces = columns.filters if args.one_filter_per_interface else args.interfaces
        gc.disable()
        predicates = trees(columns)
        gc.enable()
        labels = workload.interfaces(columns.filters, interfaces).tolist()
        made = [Message(attributes) for attributes in workload.messages(args.count)]
        return Case(predicates, None, labels, None, made, args.constraints)
    if args.generate == "icse":
        queries = Icse().queries(args.queries)
        made = [Message(attributes) for attributes in Icse().messages(args.count, args.density)]
        return Case(queries, None, list(range(len(queries))), None, made, _conditions(queries))
    if args.messages is None or args.predicates is None:
        raise InputError("give --messages and --predicates, or --generate")
    records = list(read_predicates(args.predicates))
    ids = [record.id or str(i) for i, record in enumerate(records)]
    trees_ = [record.predicate for record in records]
    if args.one_filter_per_interface:
        return Case(trees_, ids, list(range(len(ids))), ids, list(read_messages(args.messages)), _conditions(trees_))
    names = list(dict.fromkeys(record.interface for record in records))
    place = {name: i for i, name in enumerate(names)}
    labels = [place[record.interface] for record in records]
    return Case(trees_, ids, labels, names, list(read_messages(args.messages)), _conditions(trees_))


def _conditions(predicates: Sequence[Node]) -> int:
    return sum(1 for predicate in predicates for _ in constraints(predicate))


def _build(case: Case, args: argparse.Namespace) -> tuple[BddTable | ExactTable, Callable[[Any], Csr]]:
    if args.engine == "bdd":
        from secroute.exact import BddTable  # needs the package dd; the other engines do not

        semantics: Semantics = args.semantics or ("strict" if args.generate == "icse" else "open")
        if semantics != "open" and args.generate != "icse":
            raise InputError("files have no event schema; the BDD matches them with --semantics open")
        bdd = BddTable.build(case.predicates, semantics, None if semantics == "open" else SCHEMA, ids=case.ids)
        owners = case.interfaces
        if owners == list(range(len(owners))):
            return bdd, bdd.match
        return bdd, lambda messages: _by_interface(bdd.match(messages), owners)
    table = ExactTable.build(case.predicates, case.interfaces, args.engine, rounds=args.rounds, masks=not args.no_masks)
    return table, table.match


def _by_interface(found: Csr, owners: list[int]) -> Csr:
    return Csr.from_pairs(found.rows(), np.array(owners, np.int64)[found.values], len(found))


def _median(work: Callable[[], Any], repeat: int) -> float:
    """Median seconds of at least ``repeat`` runs, and of more while they are short: one preempted run says nothing."""
    times: list[float] = []
    while len(times) < repeat or (sum(times) < _MEASURE_S and len(times) < _RUNS_MAX):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def measure(case: Case, args: argparse.Namespace) -> dict[str, Any]:
    """All numbers of one case; the matches themselves under ``found``."""
    say(f"building from {len(case.predicates)} parsed predicates")
    start = time.perf_counter()
    table, match = _build(case, args)
    match(case.messages[:1])
    build_s = time.perf_counter() - start
    count = max(1, len(case.messages))
    # The oracle, and ``auto`` on a handful of conditions, take messages as they are; the others a columnar batch.
    batch: Any = case.messages if args.engine == "oracle" else MessageBatch.of(case.messages)
    found = match(batch)
    alone = _median(lambda: match(batch), args.repeat)
    lines = [json.dumps({"attributes": dict(message.attributes)}, ensure_ascii=False) for message in case.messages]
    whole = _median(lambda: match([message_of(json.loads(line)) for line in lines]), args.repeat)
    result = {
        "bench": "exact",
        "engine": args.engine,
        "messages": len(case.messages),
        "predicates": len(case.predicates),
        "constraints": case.constraints,
        "interfaces": len(set(case.interfaces)),
        "rounds": args.rounds if args.engine == "counting" else None,
        "us_per_message": round(1e6 * alone / count, 3),
        "us_per_message_with_parsing": round(1e6 * whole / count, 3),
        "build_s": round(build_s, 3),
        "bytes_per_constraint": None,
        "matches_per_message": len(found.values) / count,
        "nodes": None if isinstance(table, ExactTable) else table.nodes,
        "found": found,
    }
    if args.engine != "oracle":
        result["bytes_per_constraint"] = round(table.nbytes / max(1, case.constraints), 2)
    return result


def _write(path: Path, case: Case, found: Csr) -> None:
    """One line a message: its id and the names of what matches, in the order of the predicates file."""
    names = case.interface_names
    with path.open("w", encoding="utf-8") as out:
        for i, (message, row) in enumerate(zip(case.messages, found.to_lists(), strict=True)):
            matches = [names[value] if names is not None else str(value) for value in row]
            record = {"id": message.id or str(i), "matches": matches}
            out.write(json.dumps(record, ensure_ascii=False) + "\n")
