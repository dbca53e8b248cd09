"""``secroute audit``: false positives, leakage, parameters and reports over corpora of any size, on Spark."""

from __future__ import annotations

import argparse
import functools
import json
import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from secroute.errors import AuditError
from secroute.output import emit_json, say

ENGINES = ("auto", "tree", "scan", "counting", "reference")
ENGINES_HELP = "auto (planes of bits), or an engine of the routers'"


def _count(text: str) -> int:
    """An argument that counts something."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def _share(text: str) -> float:
    """An argument that is a part of a whole."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be a share from 0 to below 1, not {text!r}")
    return value


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, text in (
        ("run", "everything: encode, count, attack, sweep, judge, report"),
        ("fpr", "false positives only"),
        ("leakage", "leakage measures and attacks only"),
        ("sweep", "a grid of parameters"),
        ("encode", "encode a corpus to Parquet"),
    ):
        sub = commands.add_parser(name, help=text)
        _corpus(sub)
        sub.set_defaults(run=_run, job=name, keys=0)
        if name == "leakage":
            sub.add_argument("--keys", type=_count, default=0, help="also measure under so many other keys, as a table")
    plan = commands.add_parser("plan", help="recommend parameters for a target, with the evidence")
    _corpus(plan)
    plan.add_argument("--target-fpr", type=_share, default=0.01)
    plan.add_argument("--max-bits", type=_count, default=1024)
    plan.set_defaults(run=_plan)
    again = commands.add_parser("report", help="verdict and report of a finished run again, under another policy")
    again.add_argument("--out", required=True, type=Path, help="the folder of the run")
    again.add_argument("--policy", help="thresholds of the verdict (TOML)")
    again.set_defaults(run=_report)
    flights = commands.add_parser("flights", help="write the flights of 2013 and predicates over them as files")
    flights.add_argument("--out", required=True, type=Path)
    flights.add_argument("--messages", type=_count, default=None, help="at most so many flights (default: all)")
    flights.add_argument("--predicates", type=_count, default=20_000)
    flights.add_argument("--held-back", type=_share, default=0.0, help="share of both that goes to files of its own")
    flights.add_argument("--seed", type=int, default=1)
    flights.set_defaults(run=_flights)
    made = commands.add_parser("generate", help="write a workload of the papers, of any size, as a corpus")
    made.add_argument("--workload", required=True, choices=("sigcomm", "tr", "icse"))
    made.add_argument("--out", required=True, type=Path, help="a new folder")
    made.add_argument("--messages", type=_count, default=100_000)
    made.add_argument("--predicates", type=_count, default=20_000)
    made.add_argument("--interfaces", type=_count, default=200)
    _spark(made)
    made.set_defaults(run=_generate)
    bench = commands.add_parser("bench", help="pair throughput beside the plain Spark SQL join")
    bench.add_argument("--messages", type=_count, default=50_000)
    bench.add_argument("--predicates", type=_count, default=200_000)
    bench.add_argument("--sql-messages", type=_count, default=5_000, help="messages of the SQL join, which takes long")
    bench.add_argument("--exact-messages", type=_count, default=20_000)
    bench.add_argument("--engine", default="auto", choices=ENGINES, help=ENGINES_HELP)
    bench.add_argument("--profile", help="schema or profile file (default: the flights' own)")
    bench.add_argument(
        "--narrow",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="predicates of travellers (about 100 match a message), or of all kinds (about 900)",
    )
    _spark(bench)
    bench.set_defaults(run=_bench)
    theory = commands.add_parser("theory", help="the disjunction advantage: figures 5-7 of the routing report")
    theory.add_argument("--out", type=Path, required=True)
    theory.add_argument("--sets", type=_count, default=20, help="random sets of predicates for each point")
    theory.add_argument("--predicates-max", type=_count, default=10_000)
    _spark(theory)
    theory.set_defaults(run=_theory)


def _stop(*_: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _clear_errors(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """A job that Spark gives up is said in a line, as any other error; its pages of frames help nobody.

    A job that is told to stop ends by an exception, so that the workers' key file goes with it.
    """

    @functools.wraps(command)
    def run(args: argparse.Namespace) -> int:
        before = signal.signal(signal.SIGTERM, _stop)
        logging.disable(logging.ERROR)  # py4j logs the frames of a call in whose middle we were told to stop
        try:
            return command(args)
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
                raise
            stopped: BaseException | None = error
            while stopped is not None and not isinstance(stopped, SystemExit | KeyboardInterrupt):
                stopped = stopped.__context__
            if stopped is not None:  # in the middle of a call to Spark, whose session then cannot be closed in order
                raise stopped from None
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            raise AuditError(f"a Spark job failed: {(lines or [type(error).__name__])[-1][:500]}") from None
        finally:
            logging.disable(logging.NOTSET)
            signal.signal(signal.SIGTERM, before)

    return run


@contextmanager
def _session(args: argparse.Namespace) -> Iterator[Any]:
    """A Spark session that is closed in any case."""
    from secroute.audit.session import open_session

    spark = open_session(args.master, memory=args.memory, log_level=args.spark_log)
    # Spark's handler calls Java in the middle of a call to Java; an exception is enough, and closes the session.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield spark
    except BaseException:
        with suppress(Exception):  # Java may have been told to stop, too; what made us stop is the news
            spark.stop()
        raise
    spark.stop()


def _spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--memory", default="2g", help="memory of Spark's driver")
    parser.add_argument("--spark-log", default="", choices=("OFF", "ERROR", "WARN", "INFO"),
                        help="what of Spark's own log is shown (default: nothing, errors on a cluster)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1)


def _corpus(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", required=True, help="JSONL or Parquet")
    parser.add_argument("--predicates", required=True, help="JSONL or Parquet")
    parser.add_argument("--out", required=True, type=Path, help="a new folder, or that of the same run to go on")
    parser.add_argument("--profile", help="schema or profile file (default: the keyring's, else the product's default)")
    parser.add_argument("--keyring", help="a keyring; without one a throw-away key is made")
    parser.add_argument("--epoch", type=int, help="an epoch of the keyring (default: the one that publishes now)")
    parser.add_argument(
        "--passphrase-file", type=Path, metavar="FILE", help="passphrase of a sealed keyring (mode 0600)"
    )
    parser.add_argument("--worker-key-file", help="path of a token key file that every worker has (clusters)")
    parser.add_argument("--policy", help="thresholds of the verdict (TOML)")
    parser.add_argument("--tolerance", type=_share, default=0.0, help="share of records that may be bad")
    parser.add_argument("--block", type=_count, default=200_000, help="predicates held by a worker at once")
    parser.add_argument("--engine", default="auto", choices=ENGINES, help=ENGINES_HELP)
    parser.add_argument("--no-sweep", action="store_true")
    _spark(parser)


@contextmanager
def _open(args: argparse.Namespace) -> Iterator[Any]:
    from secroute.audit.keys import run_keys
    from secroute.audit.run import Audit, Plan
    from secroute.cli.keys import passphrase_of
    from secroute.encoding.profile import Profile, load_profile
    from secroute.keyring import load_token_keys

    if args.keyring and args.worker_key_file:
        raise AuditError("--keyring and --worker-key-file are two sources of keys; give one")
    if args.epoch is not None and not args.keyring:
        raise AuditError("--epoch chooses an epoch of a keyring; give --keyring, too")
    given = load_profile(args.profile) if args.profile else Profile.default()
    if args.worker_key_file:
        keys = load_token_keys(args.worker_key_file)
    else:
        keys = run_keys(given, args.keyring, args.epoch, passphrase_of(args) if args.keyring else None)
    real = args.keyring is not None or args.worker_key_file is not None
    scope = f"space {keys.scope.space.hex()[:8]}, epoch {keys.scope.epoch}" if real else "throw-away"
    profile = keys.profile if real and not args.profile else given
    # Workers may stand in another folder than this process: only whole paths mean the same to them.
    messages, predicates = (p if "://" in p else str(Path(p).resolve()) for p in (args.messages, args.predicates))
    key_file = str(Path(args.worker_key_file).resolve()) if args.worker_key_file else None
    plan = Plan(
        messages, predicates, args.out.resolve(), profile, tolerance=args.tolerance, block=args.block, seed=args.seed,
        keyring_scope=scope, worker_key_file=key_file, engine=args.engine,
    )  # fmt: skip
    started = time.monotonic()
    plan.identity()  # a missing corpus is said before Spark is started
    with _session(args) as spark:
        yield Audit(spark, plan, keys, lambda text: say(f"{time.monotonic() - started:6.1f} s  {text}"))


@_clear_errors
def _run(args: argparse.Namespace) -> int:
    from secroute.audit import publish
    from secroute.audit.verdict import load_policy

    policy = load_policy(args.policy)
    started = time.monotonic()
    with _open(args) as audit:
        if args.job in ("encode", "fpr", "leakage", "sweep"):
            result = publish.single(audit, args.job, args.keys)
        else:
            audit.run(with_sweep=not args.no_sweep)
            result = publish.publish(audit, policy)
    emit_json({**result, "seconds": round(time.monotonic() - started, 1)})
    return 1 if result.get("verdict") == "fail" else 0


@_clear_errors
def _plan(args: argparse.Namespace) -> int:
    from secroute.audit import publish

    if args.target_fpr == 0:
        raise AuditError("--target-fpr must be above 0: no encoding is without false positives")
    started = time.monotonic()
    with _open(args) as audit:
        result = publish.plan(audit, args.target_fpr, args.max_bits)
    say(f"recommended: m = {result['bits']}, k = {result['hashes']}, {result['encoding']}, {result['hardening']}")
    emit_json({**result, "seconds": round(time.monotonic() - started, 1)})
    return 0


def _report(args: argparse.Namespace) -> int:
    from secroute.audit.publish import write_report
    from secroute.audit.verdict import load_policy

    result = write_report(args.out, load_policy(args.policy))
    emit_json(result)
    return 1 if result["verdict"] == "fail" else 0


def _flights(args: argparse.Namespace) -> int:
    from secroute.audit import flights

    emit_json(flights.write(args.out, args.messages, args.predicates, args.held_back, args.seed))
    return 0


@_clear_errors
def _generate(args: argparse.Namespace) -> int:
    from secroute.audit.workloads import generate

    with _session(args) as spark:
        result = generate(spark, args.workload, args.out, args.messages, args.predicates, args.interfaces, args.seed)
    emit_json(result)
    return 0


@_clear_errors
def _bench(args: argparse.Namespace) -> int:
    from secroute.audit import flights
    from secroute.audit.bench import Sizes, bench
    from secroute.encoding.profile import load_profile

    profile = load_profile(args.profile) if args.profile else flights.profile()
    sizes = Sizes(args.messages, args.predicates, args.sql_messages, args.exact_messages)
    with _session(args) as spark:
        result = bench(spark, sizes, profile, args.narrow, args.seed, say, args.engine)
    emit_json(result)
    return 0


@_clear_errors
def _theory(args: argparse.Namespace) -> int:
    from secroute.audit.theory import run_theory

    with _session(args) as spark:
        result = run_theory(spark, args.out, args.sets, args.predicates_max, args.seed)
    (args.out / "theory.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    emit_json(result)
    return 0 if result["findings_hold"] else 1
