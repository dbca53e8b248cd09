"""The configuration: what is wrong is refused with the place where it stands, before anything runs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from secroute.errors import ConfigError, ForbiddenError
from secroute.router.config import is_loopback, load_config, parse_config


def parsed(text: str) -> object:
    return parse_config(tomllib.loads(text), Path("/base"))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("lisen = 'x'", "lisen: no such key"),
        ("listen = 'nowhere'", "listen: 'nowhere' is not host:port"),
        ("listen = 7400", "listen: must be of type str"),
        ("[store]\nmib_max = 0", "store.mib_max: 0 is outside"),
        ("[store]\nsync = 'off'", "store.sync: 'off' is not one of"),
        ("[sessions]\nkeepalive_s = 1.5", "sessions.keepalive_s: must be of type int"),
        ("[sessions]\nkeepalive_s = true", "sessions.keepalive_s: must be of type int"),
        ("[tls]\nkey = 'k'", "tls.certificate: missing"),
        ("[[client]]\nmay = ['publish']", "client[0].name: missing"),
        ("[[client]]\nname = 'x'\nmay = ['fly']", "client[0].may[0]: 'fly'"),
        ("[client]\nname = 'x'", "client: must be written as [[client]]"),
        ("[[pin]]\nspace = 'zz'\nepoch = 1\nprofile = ''", "pin[0]"),
        ("[limits]\nepochs_max = 0", "limits.epochs_max: 0 is outside"),
    ],
)
def test_errors_say_where_and_what(text: str, where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    assert where in str(caught.value)


def test_a_file_that_is_not_toml(tmp_path: Path) -> None:
    (tmp_path / "router.toml").write_text("listen = ")
    with pytest.raises(ConfigError, match=r"router\.toml"):
        load_config(tmp_path / "router.toml")


def test_the_first_rule_that_matches_counts() -> None:
    text = (
        '[[client]]\nname = "desk-*"\nmay = ["subscribe"]\nspaces = ["' + "ab" * 16 + '"]\n[[client]]\nname = "desk-7"'
    )
    config = parse_config(tomllib.loads(text), Path())
    rule = config.rule_for("desk-7")
    assert rule.allows("subscribe", b"\xab" * 16)
    assert not rule.allows("subscribe", b"\xac" * 16)
    assert not rule.allows("publish", b"\xab" * 16)
    with pytest.raises(ForbiddenError):
        config.rule_for("feed")
    with pytest.raises(ForbiddenError):
        config.rule_for("DESK-7")  # names are exact


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.0.2.1", "localhost.example", "")))  # noqa: S104
