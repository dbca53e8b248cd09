"""``secroute bench router``: what one router process carries, over mutual TLS on loopback.

Router in its own process; publisher and 50 reading sessions in this one. Everything is encoded and sealed before the
clock starts. A phase's rate counts messages that have their result *and* whose deliveries have all arrived. What bounds
a phase is read from the router itself: its CPU time, and the time it spent matching and committing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
import urllib.request
from itertools import cycle
from pathlib import Path
from typing import Any

from secroute.bench.router_lab import Lab, RouterProcess
from secroute.bench.router_load import Publisher, Reader, Workload, singles
from secroute.bench.router_subscribe import subscribe_times
from secroute.encoding.profile import Profile
from secroute.output import emit_json, say
from secroute.wire.frames import Mode

EQUALITY = Profile(bits=192)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser.add_argument("--filters", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each phase")
    parser.add_argument("--table-filters", type=int, default=1_000_000, help="when subscribing is timed; 0: skip that")
    parser.add_argument("--batch", type=int, default=1024, help="messages in a frame")
    parser.set_defaults(run=lambda args: asyncio.run(_bench(args)))


async def _bench(args: argparse.Namespace) -> int:
    result: dict[str, Any] = {"filters": args.filters, "sessions": args.sessions, "batch": args.batch}
    bounds: dict[str, Any] = {}
    with Lab() as lab:
        work = Workload.make(EQUALITY, args.filters, args.sessions)
        batches = work.batches(32 * args.batch, args.batch, seed=1)
        async with Rig(lab, work) as rig:
            phase = await rig.flood(batches, Mode.BEST_EFFORT, args.seconds)
            bounds["best_effort"] = phase["bound"]
            result |= {"best_effort_messages_per_s": phase["rate"], "deliveries_per_message": phase["fan_out"]}
            result |= {"router_cpu_share": phase["cpu_share"], "router_cpu_us_per_message": phase["cpu_us"]}
            result |= await rig.latency(work.batches(4096, 256, seed=2), phase["rate"] / 2, args.seconds)
            one = await rig.flood(singles(batches, 4096), Mode.BEST_EFFORT, args.seconds)
            bounds["single_frame"] = one["bound"]
            result |= {"single_frame_messages_per_s": one["rate"], "single_frame_cpu_us": one["cpu_us"]}
            result["router_rss_mb"] = rig.rss_mb()
        async with Rig(lab, work, durable=True) as rig:
            fresh = work.batches(160 * args.batch, args.batch, seed=3)
            phase = await rig.flood(fresh, Mode.AT_LEAST_ONCE, args.seconds, once=True)
            bounds["durable"] = phase["bound"]
            result |= {"durable_messages_per_s": phase["rate"], "durable_cpu_us_per_message": phase["cpu_us"]}
        wide = Workload.make(Profile.default(), args.filters, args.sessions)
        async with Rig(lab, wide) as rig:
            phase = await rig.flood(wide.batches(16 * args.batch, args.batch, seed=4), Mode.BEST_EFFORT, args.seconds)
            bounds["default_profile"] = phase["bound"]
            result |= {"default_profile_messages_per_s": phase["rate"], "default_profile_cpu_us": phase["cpu_us"]}
        if args.table_filters:
            result |= await subscribe_times(lab, args.table_filters, args.sessions)
    emit_json(result | {"bound_by": bounds})
    return 0


def bound_of(spent: dict[str, float], took: float, sent: int) -> dict[str, Any]:
    """What a phase was bound by: the stage that was busy all the time, and microseconds of each for a message."""
    each = {f"{part}_us": round(seconds / max(sent, 1) * 1e6, 2) for part, seconds in spent.items() if part != "cpu"}
    shares = {"matching": spent["match"] / took, "the store's transactions": spent["commit"] / took}
    rest = max(0.0, spent["cpu"] - spent["match"]) / took  # matching is timed by the clock: it may wait for a core
    stage, share = max(shares.items(), key=lambda item: item[1])
    if share > 0.7:
        by = stage
    elif rest > 0.7:
        by = "the router's event loop: gRPC frames in and out"
    else:
        by = "the load generator beside it: it encodes, decodes and shovels on the same cores"
    return {"by": by, "match_share": round(shares["matching"], 2), "loop_share": round(rest, 2), **each}


class Rig:
    """A fresh router with subscribed readers and one publisher."""

    def __init__(self, lab: Lab, work: Workload, durable: bool = False) -> None:
        self._lab, self._work, self._durable = lab, work, durable
        self._readers: list[Reader] = []

    async def __aenter__(self) -> Rig:
        self._router: RouterProcess = self._lab.router(f"router-{len(self._lab.routers)}")
        identity = self._lab.identity("bench")
        started = time.perf_counter()
        for filters in self._work.filters:
            self._readers.append(await Reader.open(self._router.target, identity, filters, self._durable))
        self._publisher = await Publisher.open(self._router.target, identity)
        say(f"{self._work.profile.bits} bits: subscribed in {time.perf_counter() - started:.1f} s")
        return self

    async def __aexit__(self, *_: object) -> None:
        for reader in self._readers:
            await reader.close()
        await self._publisher.close()
        await asyncio.to_thread(self._router.stop)

    async def flood(self, batches: list[Any], mode: Mode, seconds: float, once: bool = False) -> dict[str, Any]:
        """Publish as fast as the window allows; ``once``: no batch twice."""
        await self._round(batches[:1], mode, 60.0, True)  # compiled kernels, warm caches
        delivered, before, started = self._delivered(), await self._spent(), time.perf_counter()
        sent = await self._round(batches[1:], mode, seconds, once)
        took = time.perf_counter() - started
        after = await self._spent()
        spent = {part: after[part] - before[part] for part in after}
        out = {
            "rate": round(sent / took),
            "fan_out": round((self._delivered() - delivered) / max(sent, 1), 3),
            "cpu_share": round(spent["cpu"] / took, 2),
            "cpu_us": round(spent["cpu"] / max(sent, 1) * 1e6, 1),
            "bound": bound_of(spent, took, sent),
        }
        say(f"{mode.name.lower()}: {out}")
        return out

    async def _spent(self) -> dict[str, float]:
        """Seconds of the router so far: CPU, and within that matching and committing (from its metrics)."""
        text = await asyncio.to_thread(self._metrics)
        parts = {}
        for part in ("match", "commit"):
            (line,) = (line for line in text.splitlines() if line.startswith(f"secroute_{part}_seconds_sum "))
            parts[part] = float(line.split()[1])
        return {"cpu": self._cpu_s(), **parts}

    def _metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._router.metrics_port}/metrics", timeout=10) as answer:
            return str(answer.read(), "utf-8")

    async def _round(self, batches: list[Any], mode: Mode, seconds: float, once: bool) -> int:
        before, sent, end = self._delivered(), 0, time.perf_counter() + seconds
        for batch in batches if once else cycle(batches):
            await self._publisher.send(batch, mode)
            sent += len(batch)
            if time.perf_counter() > end:
                break
        await self._publisher.settle()
        waited = time.perf_counter() + 20.0
        while self._delivered() - before < 2 * sent and time.perf_counter() < waited:
            await asyncio.sleep(0.001)
        return sent

    async def latency(self, batches: list[Any], rate: float, seconds: float) -> dict[str, float]:
        """Publish to delivery at a steady rate."""
        sent_at: dict[bytes, float] = {}
        for reader in self._readers:
            reader.timing = True
        step = len(batches[0]) / rate
        due = time.perf_counter()
        end = due + seconds
        latencies: list[float] = []
        for batch in cycle(batches):
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            now = time.perf_counter()
            for row in batch.ids:
                sent_at[row.tobytes()] = now
            await self._publisher.send(batch, Mode.BEST_EFFORT)
            due += step
            latencies += self._collect(sent_at)
            if time.perf_counter() > end:
                break
        await self._publisher.settle()
        await asyncio.sleep(0.2)
        latencies = sorted(latencies + self._collect(sent_at))
        for reader in self._readers:
            reader.timing = False
        p50, p99 = (round(latencies[int(share * (len(latencies) - 1))] * 1000, 2) for share in (0.5, 0.99))
        return {"p50_ms": p50, "p99_ms": p99, "latency_load_messages_per_s": round(rate)}

    def _collect(self, sent_at: dict[bytes, float]) -> list[float]:
        out = []
        for reader in self._readers:
            out += [arrived - sent_at[first] for arrived, first in reader.latencies if first in sent_at]
            reader.latencies.clear()
        return out

    def _delivered(self) -> int:
        return sum(reader.delivered for reader in self._readers)

    def _cpu_s(self) -> float:
        fields = Path(f"/proc/{self._router.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        """Resident memory of the router."""
        pages = int(Path(f"/proc/{self._router.pid}/statm").read_text().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
