"""``secroute bench match``: an engine beside the fastest compiled linear scan, in one run on the same messages.

Every message is answered by itself: the kernel gets many of them in one call, but finishes one before it looks at the
next, and the time of each is taken inside (``p99_us``).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from secroute import limits
from secroute.bench.match_workloads import TAG_WORKLOADS, Workload, paper_workload, tag_workload
from secroute.engine import ENGINES, Csr, ForwardingTable, warm_up
from secroute.engine.types import ALL_LIVE, NO_LIMIT, check_interfaces
from secroute.errors import InputError
from secroute.opaque import Words, check_words
from secroute.output import emit_json, say

_PASSES = 12  # short ones, of which the fastest counts: the machine may have other work
_SCAN_SECONDS = 0.25  # how long one pass of the baseline may take
_PILOT_MESSAGES = 8
Run = Callable[[Words], Csr]


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments."""
    given = parser.add_argument_group("given files")
    given.add_argument("--filters", metavar="F.npy", help="uint64 [N, W]")
    given.add_argument("--messages", metavar="M.npy", help="uint64 [Q, W]")
    given.add_argument("--interfaces", metavar="I.npy", help="int [N]; without it all filters are on interface 0")
    made = parser.add_argument_group("generated workloads")
    made.add_argument("--generate", choices=(*TAG_WORKLOADS, "paper"))
    made.add_argument("--count", type=int, default=100_000, help="filters")
    made.add_argument("--bits", type=int, default=None, help="width; 192, or 2048 for paper")
    made.add_argument("--fill", type=float, default=0.4, help="paper: share of a message's bits that are set")
    made.add_argument("--message-count", type=int, default=4_000)
    made.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one-filter-per-interface", action="store_true", help="every filter an interface of its own")
    parser.add_argument("--engine", choices=ENGINES, default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=None, help="selectivity rounds; the engine's choice without it")
    parser.add_argument("--match-all", action="store_true", help="allow filters without bits, which match everything")
    parser.add_argument("--out", metavar="matches.npz", help="write CSR offsets, interfaces")
    parser.add_argument("--filters-out", metavar="filters.npz", help="write CSR offsets, filters, and time that")
    parser.add_argument("--live", action="store_true", help="measure a live table while filters are merged instead")
    parser.add_argument("--curves", metavar="DIR", help="measure and draw the paper's curves into DIR instead")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    if args.curves:
        from secroute.bench.match_curves import draw

        emit_json(draw(Path(args.curves), args.seed))
        return 0
    load = workload(args)
    if args.live:
        from secroute.bench.match_live import measure_merge

        emit_json(measure_merge(load, args.engine))
        return 0
    emit_json(measure(load, args))
    return 0


def workload(args: argparse.Namespace) -> Workload:
    """The workload that the arguments name."""
    if (args.generate is None) == (args.filters is None):
        raise InputError("give either --generate KIND or --filters F.npy with --messages M.npy")
    if args.generate is None:
        return _given(args)
    if not 1 <= args.count <= limits.TABLE_FILTERS_MAX or not 1 <= args.message_count <= limits.TABLE_FILTERS_MAX:
        raise InputError(f"--count and --message-count must be 1..{limits.TABLE_FILTERS_MAX}")
    if args.generate == "paper":
        load = paper_workload(args.count, args.bits or 2_048, args.fill, args.message_count, args.seed)
    else:
        load = tag_workload(args.generate, args.count, args.bits or 192, args.message_count, args.seed)
    return load.one_filter_per_interface() if args.one_filter_per_interface else load


def _given(args: argparse.Namespace) -> Workload:
    if args.messages is None:
        raise InputError("--filters F.npy needs --messages M.npy")
    filters = check_words(_load(args.filters), args.filters)
    messages = check_words(_load(args.messages), args.messages)
    if filters.shape[1] != messages.shape[1]:
        raise InputError(f"{args.filters} is {filters.shape[1]} words wide, {args.messages} {messages.shape[1]}")
    if args.interfaces is not None and args.one_filter_per_interface:
        raise InputError("--interfaces and --one-filter-per-interface exclude each other")
    interfaces = np.zeros(len(filters), np.int64) if args.interfaces is None else _load(args.interfaces)
    load = Workload(filters, check_interfaces(interfaces, len(filters)), messages)
    return load.one_filter_per_interface() if args.one_filter_per_interface else load


def _load(path: str) -> npt.NDArray[Any]:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path}: not a .npy file of numbers ({error})") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: expected one array in a .npy file, not an archive of several")
    return array


def measure(load: Workload, args: argparse.Namespace) -> dict[str, Any]:
    """Build, match, write what was asked for, and compare with the scan."""
    warm_s = warm_up(args.engine)
    began = time.perf_counter()
    table = ForwardingTable.build(
        load.filters, load.interfaces, engine=args.engine, rounds=args.rounds, match_all=args.match_all
    )
    build_s = time.perf_counter() - began
    say(f"{table} built in {build_s:.2f} s, {table.bytes_per_filter:.1f} bytes a filter")
    say(f"warm-up {warm_s:.2f} s")
    scans = fastest_scan(load, args) if len(load.messages) else ("none", {})
    result: dict[str, Any] = {"engine": table.engine, "filters": len(load.filters), "messages": len(load.messages)}
    result |= {"interfaces": len(table.interfaces), "bits": load.filters.shape[1] * 64, "threads": args.threads}
    result |= {"rounds": table.rounds, "build_s": round(build_s, 3), "warm_up_s": round(warm_s, 3)}
    result |= {"bytes_per_filter": round(table.bytes_per_filter, 2), "scan_layout": scans[0]}
    result |= {"mode": "filters" if args.filters_out else "interfaces"}
    figures = {mode: _figures(table, load.messages, mode, args.threads, scans[1]) for mode in ("filters", "interfaces")}
    result |= figures[result["mode"]]
    result["all_filters"] = figures["filters"]
    _write(table, load.messages, args)
    return result


def _write(table: ForwardingTable, messages: Words, args: argparse.Namespace) -> None:
    if args.out:
        found = table.forward(messages, threads=args.threads)
        np.savez(args.out, offsets=found.offsets, interfaces=found.values)
    if args.filters_out:
        found = table.match_filters(messages, threads=args.threads)
        np.savez(args.filters_out, offsets=found.offsets, filters=found.values)


def runner(table: ForwardingTable, mode: str, threads: int) -> Run:
    """Match a batch in one of the two modes: every filter, or interfaces with the short cuts."""
    if mode == "filters":
        return lambda bits: table.match_filters(bits, threads=threads)
    return lambda bits: table.forward(bits, threads=threads)


def _figures(
    table: ForwardingTable, messages: Words, mode: str, threads: int, scan: dict[str, float]
) -> dict[str, Any]:
    if not len(messages):
        return dict.fromkeys(("messages_per_s", "us_per_message", "p99_us", "matches_per_message"), 0.0)
    found = runner(table, mode, threads)(messages[:_PILOT_MESSAGES])
    seconds, found = best_of(runner(table, mode, threads), messages)
    rate = len(messages) / seconds
    figures = {
        "messages_per_s": round(rate, 1),
        "us_per_message": round(1e6 / rate, 3),
        "p99_us": round(float(np.percentile(message_times_us(table, messages, mode), 99)), 3),
        "matches_per_message": round(len(found.values) / len(messages), 3),
        "scan_messages_per_s": round(scan[mode], 1),
        "speedup_over_scan": round(rate / scan[mode], 2),
    }
    if threads > 1:
        figures["speedup_over_one_thread"] = round(best_of(runner(table, mode, 1), messages)[0] / seconds, 2)
    return figures


def best_of(run_batch: Run, messages: Words, passes: int = _PASSES) -> tuple[float, Csr]:
    """Seconds of the fastest of a few passes, and the answer."""
    best, found = float("inf"), Csr.empty(0)
    for _ in range(passes):
        began = time.perf_counter()
        found = run_batch(messages)
        best = min(best, time.perf_counter() - began)
    return best, found


def fastest_scan(load: Workload, args: argparse.Namespace) -> tuple[str, dict[str, float]]:
    """The faster layout of the compiled scan, and its messages a second in both modes, on the same threads."""
    best: tuple[str, dict[str, float]] = ("none", {})
    for layout, engine in (("columns", "scan"), ("rows", "scan-rows")):
        table = ForwardingTable.build(
            load.filters, load.interfaces, engine=engine, rounds=args.rounds, match_all=args.match_all
        )
        rates = {}
        for mode in ("filters", "interfaces"):
            run_batch = runner(table, mode, args.threads)
            run_batch(load.messages[:1])
            pilot, _ = best_of(run_batch, load.messages[:_PILOT_MESSAGES])
            fits = int(_SCAN_SECONDS / (pilot / min(_PILOT_MESSAGES, len(load.messages))))
            some = load.messages[: max(_PILOT_MESSAGES, fits)]
            rates[mode] = len(some) / best_of(run_batch, some)[0]
        say(f"scan by {layout}: {rates['filters']:,.0f} messages a second")
        if not best[1] or rates["filters"] > best[1]["filters"]:
            best = (layout, rates)
    return best


def message_times_us(table: ForwardingTable, messages: Words, mode: str) -> npt.NDArray[np.float64]:
    """Microseconds that each message took, from the cycle counter inside the kernel (the clock, if there is none)."""
    if table.engine == "reference":
        one = runner(table, mode, 1)
        return np.array([_clock(partial(one, messages[i : i + 1])) for i in range(len(messages))])
    ticks = np.zeros(len(messages), np.int64)
    matcher: Any = table.matcher

    def call() -> None:
        if mode == "filters":
            matcher.filters(messages, ALL_LIVE, NO_LIMIT, ticks)
        else:
            matcher.interfaces(messages, ALL_LIVE, table.gate(len(messages)), ticks)

    total_us = _clock(call)
    spent = np.diff(ticks, prepend=ticks[:1])[1:]
    if not len(spent) or ticks[-1] == ticks[0]:
        return np.array([total_us / len(messages)])
    return spent * (total_us * (len(messages) - 1) / len(messages) / float(ticks[-1] - ticks[0]))


def _clock(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e6
