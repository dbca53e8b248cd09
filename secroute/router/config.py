"""The router's configuration: TOML to frozen values, every key known, typed and bounded. UNTRUSTED side.

Secrets are not in it: it names files. ``template.py`` holds the commented file that ``secroute router init`` writes.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import ipaddress
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from secroute import limits
from secroute.errors import ConfigError, ForbiddenError
from secroute.opaque import Scope

Section = TypeVar("Section")
Right = Literal["publish", "subscribe", "admin"]
INSECURE_OWNER = "insecure"
_MIB = 1_048_576


def bounded(default: float, least: float, most: float) -> Any:
    """A number with bounds."""
    return field(default=default, metadata={"bounds": (least, most)})


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of the router's own transport identity, and the CA that signs its clients."""

    certificate: Path
    key: Path
    client_ca: Path


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """The durable store."""

    path: Path = Path("router-store/store.db")
    sync: Literal["full", "normal"] = "full"
    mib_max: int = bounded(16_384, 1, 2**24)


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """Bounds that every session has."""

    hello_timeout_s: float = bounded(10.0, 0.1, 300.0)
    keepalive_s: int = bounded(20, 1, 3_600)
    resume_grace_s: int = bounded(30, 0, 86_400)
    publish_window_batches: int = bounded(1_024, 1, 4_096)
    publish_window_messages: int = bounded(65_536, 1, limits.CREDIT_MESSAGES_MAX)
    publish_window_mib: int = bounded(32, 1, 1_024)
    slow_consumer: Literal["spill", "slow"] = "spill"
    slow_timeout_s: float = bounded(30.0, 0.1, 3_600.0)
    spill_mib_max: int = bounded(1_024, 0, 2**20)
    frame_kib: int = bounded(1_024, 16, limits.FRAME_BYTES_MAX // 2_048)


@dataclass(frozen=True, slots=True)
class DurableConfig:
    """Bounds and policies of durable subscriptions."""

    ack_timeout_s: float = bounded(30.0, 0.05, limits.ACK_TIMEOUT_MS_MAX / 1000)
    tries_max: int = bounded(8, 1, limits.TRIES_MAX)
    overflow: Literal["refuse", "gap"] = "refuse"
    queue_messages_max: int = bounded(1_000_000, 1, 10**9)
    queue_mib_max: int = bounded(1_024, 1, 2**20)
    spool_messages_max: int = bounded(1_000_000, 0, 10**9)
    spool_mib_max: int = bounded(1_024, 0, 2**20)
    memory_mib_max: int = bounded(128, 0, 2**16)


@dataclass(frozen=True, slots=True)
class GuardConfig:
    """The duplicate guard."""

    window_s: float = bounded(600.0, 1.0, 86_400.0)
    keys_max: int = bounded(2_000_000, 1_000, 100_000_000)


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """Bounds of the node."""

    sessions_max: int = bounded(10_000, 1, 10**6)
    message_ttl_s_max: float = bounded(limits.TTL_MS_MAX / 1000, 0.001, limits.TTL_MS_MAX / 1000)
    message_ttl_s_default: float = bounded(0.0, 0.0, limits.TTL_MS_MAX / 1000)
    epochs_max: int = bounded(1_024, 1, 10**6)
    epoch_idle_s: float = bounded(3_600.0, 0.1, 30 * 86_400.0)
    drain_s: int = bounded(10, 0, 3_600)
    batch_linger_ms: float = bounded(0.0, 0.0, 100.0)


@dataclass(frozen=True, slots=True)
class ClientRule:
    """What certificates with a matching name may do. The first rule that matches counts."""

    name: str
    may: tuple[Right, ...] = ("publish", "subscribe")
    spaces: tuple[str, ...] = ("*",)
    sessions_max: int = bounded(64, 1, 10**6)
    filters_max: int = bounded(1_000_000, 1, 10**8)
    durable_max: int = bounded(256, 0, 10**6)
    mib_per_s: float = bounded(0.0, 0.0, 10**6)
    queue_mib: int = bounded(32, 1, 2**16)

    def allows(self, right: Right, space: bytes) -> bool:
        """Whether a right holds in a space."""
        return right in self.may and ("*" in self.spaces or space.hex() in self.spaces)


@dataclass(frozen=True, slots=True)
class OverlayConfig:
    """The network of routers; it matters only to a router with neighbours."""

    name: str = ""
    scheme: Literal["pif", "psf", "ips", "drp"] = "pif"
    queue_mib: int = bounded(1_024, 1, 2**20)
    forget_s: float = bounded(3_600.0, 1.0, 30 * 86_400.0)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another router, by the name of its certificate; at least one side knows the other's address and calls it."""

    name: str
    address: str = ""
    weight: int = bounded(1, 1, limits.LINK_WEIGHT_MAX)


@dataclass(frozen=True, slots=True)
class Pin:
    """The profile digest of one epoch, fixed by the operator."""

    space: str
    epoch: int
    profile: str

    def scope(self) -> Scope:
        """The pinned scope."""
        return Scope(bytes.fromhex(self.space), self.epoch, bytes.fromhex(self.profile))


@dataclass(frozen=True, slots=True)
class Config:
    """Everything."""

    listen: str = "127.0.0.1:7400"
    metrics_listen: str = "127.0.0.1:9464"
    tls: Tls | None = None
    store: StoreConfig = StoreConfig()
    sessions: SessionConfig = SessionConfig()
    durable: DurableConfig = DurableConfig()
    guard: GuardConfig = GuardConfig()
    limits: LimitsConfig = LimitsConfig()
    clients: tuple[ClientRule, ...] = ()
    pins: tuple[Pin, ...] = ()
    overlay: OverlayConfig = OverlayConfig()
    neighbours: tuple[Neighbour, ...] = ()

    def rule_for(self, owner: str) -> ClientRule:
        """The rule of a certificate's name; raises if there is none."""
        for rule in self.clients:
            if fnmatch.fnmatchcase(owner, rule.name):
                return rule
        raise ForbiddenError(f"certificate {owner!r} matches no [[client]] of this router")


def parse_address(text: str, where: str) -> tuple[str, int]:
    """``host:port`` (IPv6 in brackets); port 0 asks for a free one."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535 or not host:
        raise ConfigError(f"{where}: {text!r} is not host:port")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether a host to listen on is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def load_config(path: Path) -> Config:
    """Read a file; relative paths in it are relative to it."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    return parse_config(data, path.parent)


def parse_config(data: Mapping[str, Any], base: Path) -> Config:
    """Check a parsed TOML document."""
    known = {"listen", "metrics_listen", "tls", "store", "sessions", "durable", "guard", "limits", "client", "pin"}
    known |= {"overlay", "neighbour"}
    for key in data.keys() - known:
        raise ConfigError(f"{key}: no such key; known are {', '.join(sorted(known))}")
    default = Config()
    config = Config(
        listen=_value(str, data.get("listen", default.listen), "listen", {}, base),
        metrics_listen=_value(str, data.get("metrics_listen", default.metrics_listen), "metrics_listen", {}, base),
        tls=_section(Tls, data["tls"], "tls", base) if "tls" in data else None,
        store=_section(StoreConfig, data.get("store", {}), "store", base),
        sessions=_section(SessionConfig, data.get("sessions", {}), "sessions", base),
        durable=_section(DurableConfig, data.get("durable", {}), "durable", base),
        guard=_section(GuardConfig, data.get("guard", {}), "guard", base),
        limits=_section(LimitsConfig, data.get("limits", {}), "limits", base),
        clients=_sections(ClientRule, data.get("client", []), "client", base),
        pins=_sections(Pin, data.get("pin", []), "pin", base),
        overlay=_section(OverlayConfig, data.get("overlay", {}), "overlay", base),
        neighbours=_sections(Neighbour, data.get("neighbour", []), "neighbour", base),
    )
    parse_address(config.listen, "listen")
    if config.metrics_listen:
        parse_address(config.metrics_listen, "metrics_listen")
    _check_overlay(config)
    for index, pin in enumerate(config.pins):
        try:
            pin.scope()
        except ValueError as error:
            raise ConfigError(f"pin[{index}]: {error}") from None
    return config


def _check_overlay(config: Config) -> None:
    names = [each.name for each in config.neighbours]
    if names and (not config.overlay.name or config.overlay.name in names or len(set(names)) < len(names)):
        raise ConfigError(
            "overlay.name: a router with neighbours has a name (its certificate's), different from theirs"
        )
    for index, each in enumerate(config.neighbours):
        if each.address:
            parse_address(each.address, f"neighbour[{index}].address")


def _sections(cls: type[Section], data: object, where: str, base: Path) -> tuple[Section, ...]:
    if not isinstance(data, list):
        raise ConfigError(f"{where}: must be written as [[{where}]]")
    return tuple(_section(cls, part, f"{where}[{index}]", base) for index, part in enumerate(data))


def _section(cls: type[Section], data: object, where: str, base: Path) -> Section:
    if not isinstance(data, dict):
        raise ConfigError(f"{where}: must be a table")
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in data.keys() - fields.keys():
        raise ConfigError(f"{where}.{key}: no such key; known are {', '.join(sorted(fields))}")
    hints = get_type_hints(cls)
    values = {k: _value(hints[k], v, f"{where}.{k}", fields[k].metadata, base) for k, v in data.items()}
    for name, known in fields.items():
        if known.default is dataclasses.MISSING and name not in values:
            raise ConfigError(f"{where}.{name}: missing")
    # A path that was not named is relative to the file, too.
    for name, known in fields.items():
        if name not in values and isinstance(known.default, Path):
            values[name] = base / known.default
    return cls(**values)


def _value(hint: Any, value: Any, where: str, metadata: Mapping[str, Any], base: Path) -> Any:
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise ConfigError(f"{where}: must be a list")
        return tuple(_value(get_args(hint)[0], part, f"{where}[{i}]", {}, base) for i, part in enumerate(value))
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise ConfigError(f"{where}: {value!r} is not one of {', '.join(map(repr, get_args(hint)))}")
        return value
    if hint is Path:
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{where}: must be a file name")
        return base / value
    allowed = (int, float) if hint is float else (hint,)
    if not isinstance(value, allowed) or isinstance(value, bool):
        raise ConfigError(f"{where}: must be of type {hint.__name__}, not {type(value).__name__}")
    least, most = metadata.get("bounds", (None, None))
    if least is not None and not least <= value <= most:
        raise ConfigError(f"{where}: {value} is outside {least:g}..{most:g}")
    return hint(value)
