"""What an operator does: health, reflection, figures, reload, drain, and the commands to a running router."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from secroute.router.config import Config, parse_config
from secroute.router.template import TEMPLATE
from secroute.wire import frames
from secroute.wire._generated import admin_pb2, admin_pb2_grpc
from tests.integration.router.conftest import MakeRouter
from tests.integration.router.raw import (
    SPACE,
    Authority,
    RawClient,
    Router,
    durable,
    filters_for,
    message_batch,
    wait_for,
)

RULES = """
[[client]]
name = "operator"
may = ["admin"]
[[client]]
name = "desk"
"""


def secroute(*words: str, cwd: Path, status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "secroute.cli.main", *words], cwd=cwd, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def asked(router: Router, *words: str) -> dict[str, Any]:
    name, *more = words
    text = secroute("router", name, "--router", router.target, "--identity", "operator", *more, cwd=router.folder)
    return json.loads(text.splitlines()[-1])


class Secure:
    """A router with TLS and the certificates of an operator and a desk."""

    def __init__(self, router: Router) -> None:
        self.authority = Authority(router.folder)
        self.authority.issue("router", "router")
        self.operator, self.desk = self.authority.credentials("operator"), self.authority.credentials("desk")
        self.router = router.start()

    def channel(self) -> grpc.Channel:
        return grpc.secure_channel(self.router.target, self.operator)


@pytest.fixture
def secure(make_router: MakeRouter) -> Secure:
    return Secure(make_router(RULES, tls=True))


def test_health_and_reflection_answer_over_mutual_tls(secure: Secure) -> None:
    with secure.channel() as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", "secroute.v1.Gateway", "secroute.v1.Admin"):
            answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as caught:
            health.Check(health_pb2.HealthCheckRequest(service="no.such"), timeout=10)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        described = ProtoReflectionDescriptorDatabase(channel)
        services = set(described.get_services())
        assert {"secroute.v1.Gateway", "secroute.v1.Admin", "grpc.health.v1.Health"} <= services
        file = described.FindFileContainingSymbol("secroute.v1.Gateway")
        (gateway,) = file.service
        assert [method.name for method in gateway.method] == ["Session", "ListDurable", "DeleteDurable"]
        assert {message.name for message in file.message_type} > {"Hello", "Welcome", "Publish", "Delivery"}


def test_admin_needs_its_role(secure: Secure) -> None:
    with grpc.secure_channel(secure.router.target, secure.desk) as channel:
        admin = admin_pb2_grpc.AdminStub(channel)
        for method in ("Status", "ListSessions", "ListTables", "ListEpochs", "ListDurable", "Drain"):
            request = {"Drain": admin_pb2.DrainRequest()}.get(method, admin_pb2.StatusRequest())
            with pytest.raises(grpc.RpcError) as caught:
                getattr(admin, method)(request, timeout=10)
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert caught.value.details().startswith("forbidden: ")
    words = ("router", "status", "--router", secure.router.target, "--identity", "desk")
    assert "no admin role" in secroute(*words, cwd=secure.router.folder, status=2)


def test_figures_are_live_and_agree(secure: Secure) -> None:
    router = secure.router

    async def scenario() -> None:
        async with RawClient(router.target, secure.desk) as client:
            await client.hello()
            await client.subscribe(1, filters_for([1, 2]))
            await client.subscribe(2, filters_for([3]), durable=durable(7))
            await client.publish(message_batch([1, 2, 3, 4]))
            deliveries = [await client.expect(frames.Delivery) for _ in range(2)]
            assert {each.subscription for each in deliveries} == {0, 2}
            await asyncio.to_thread(check)

    def check() -> None:
        status = asked(router, "status")
        counters = status["counters"]
        assert (counters["messages_in"], counters["messages_matched"], counters["messages_out"]) == (4, 3, 3)
        assert (status["sessions"], status["filters"], status["durable_list"][0]["in_flight"]) == (1, 3, 1)
        (session,) = status["session_list"]
        assert (session["owner"], session["filters"], session["subscriptions"]) == ("desk", 2, 2)
        epochs = asked(router, "epochs")
        assert [(part["space"], part["epoch"]) for part in epochs["epochs"]] == [(SPACE.hex(), 1)]
        assert epochs["tables"][0]["filters"] == 3
        words = ("--router", router.target, "--identity", "operator", "--count", "2", "--interval", "0.2")
        top = secroute("router", "top", *words, cwd=router.folder)
        for part in ("messages in", "messages out", "match p50 / p99", "desk", durable(7).name.hex()[:8]):
            assert part in top
        with urllib.request.urlopen(f"http://{router.addresses['metrics']}/metrics", timeout=10) as answer:
            metrics = str(answer.read(), "utf-8")
        for line in (
            "secroute_messages_in_total 4.0",
            "secroute_messages_out_total 3.0",
            "secroute_sessions 1.0",
            "secroute_filters 3.0",
            "secroute_durable_flying_messages 1.0",
            'secroute_match_seconds_bucket{le="+Inf"} 1.0',
        ):
            assert line in metrics

    asyncio.run(scenario())


def test_durable_subscriptions_and_dead_letters_by_command(secure: Secure) -> None:
    router, name = secure.router, durable(7).name.hex()

    async def scenario() -> None:
        async with RawClient(router.target, secure.desk) as client:
            await client.hello()
            await client.subscribe(2, filters_for([3]), durable=durable(7))
            await client.publish(message_batch([3, 3]))
            await client.collect(2, 2)
            await client.ack(2, 2, verdict=frames.Verdict.DEAD)
            (listed,) = (await asyncio.to_thread(asked, router, "durable"))["durable"]
            assert (listed["name"], listed["owner"], listed["dead"]) == (name, "desk", 2)
            requeued = await asyncio.to_thread(asked, router, "dead", "requeue", name, "--owner", "desk")
            assert requeued == {"messages": 2}
            assert await client.values(2, 2) == [3, 3]
            deleted = await asyncio.to_thread(asked, router, "durable", "--delete", name, "--owner", "desk")
            assert deleted == {"messages_dropped": 2}
            assert (await client.expect(frames.Detached)).subscription == 2

    asyncio.run(scenario())
    words = ("router", "durable", "--router", router.target, "--identity", "operator", "--delete", name)
    assert "--owner" in secroute(*words, cwd=router.folder, status=2)
    assert "no durable" in secroute(*words, "--owner", "desk", cwd=router.folder, status=2)


@pytest.mark.parametrize("how", ["SIGTERM", "command"])
def test_drain_finishes_what_is_under_way(secure: Secure, how: str) -> None:
    router = secure.router

    async def scenario() -> None:
        async with RawClient(router.target, secure.desk) as client:
            await client.hello()
            await client.subscribe(1, filters_for([1]))
            if how == "SIGTERM":
                router.signal(signal.SIGTERM)
            else:
                await asyncio.to_thread(asked, router, "drain", "--deadline", "9")
            drain = await client.expect(frames.Drain)
            assert drain.deadline_s == (10 if how == "SIGTERM" else 9)
            refused = await client.publish(message_batch([1]))
            assert refused.problem is not None
            assert (refused.problem.code, refused.problem.retryable) == ("draining", True)
            async with RawClient(router.target, secure.desk) as late:
                await late.send(frames.Hello())
                problem = (await late.expect(frames.Goodbye)).problem
                assert problem is not None
                assert problem.code == "draining"
            await client.send(frames.Goodbye())

    asyncio.run(scenario())
    assert router.process is not None
    assert router.process.wait(20) == 0
    assert router.events("stopped")


def test_reload_takes_what_is_right_and_refuses_what_is_not(secure: Secure) -> None:
    router = secure.router
    path = router.folder / "router.toml"
    good = path.read_text()

    async def problem_of_publishing() -> frames.Problem | None:
        async with RawClient(router.target, secure.desk) as client:
            await client.hello()
            return (await client.publish(message_batch([1]))).problem

    assert asyncio.run(problem_of_publishing()) is None
    path.write_text(good.replace('name = "desk"', 'name = "desk"\nmay = ["subscribe"]'))
    router.signal(signal.SIGHUP)
    wait_for(lambda: router.events("reload"), "the reload")
    problem = asyncio.run(problem_of_publishing())
    assert problem is not None
    assert problem.code == "forbidden"

    async def rights_end_with_the_rule() -> None:
        async with RawClient(router.target, secure.desk) as client, RawClient(router.target, secure.desk) as other:
            await client.hello()
            await other.hello()
            await client.subscribe(1, filters_for([1]))
            path.write_text(good.replace('name = "desk"', 'name = "desk"\nmay = ["publish"]'))
            router.signal(signal.SIGHUP)
            ended = (await client.expect(frames.Goodbye)).problem
            assert ended is not None
            assert ended.code == "forbidden"
            assert (await other.publish(message_batch([1]))).problem is None  # has subscribed to nothing

    asyncio.run(rights_end_with_the_rule())
    path.write_text(good.replace('name = "desk"', 'name = "desk"\nmay = ["subscribe"]'))
    router.signal(signal.SIGHUP)
    wait_for(lambda: len(router.events("reload")) == 3, "the reload")
    path.write_text(good + '\n[[client]]\nname = "x"\nmay = ["everything"]\n')
    router.signal(signal.SIGHUP)
    (refused,) = wait_for(lambda: router.events("reload-refused"), "the refusal")
    assert "client[2].may" in refused["reason"]
    assert asyncio.run(problem_of_publishing()) is not None  # still the last good one


@pytest.mark.parametrize("door", ["listen", "metrics"])
def test_a_port_that_is_taken_is_said_plainly(make_router: MakeRouter, door: str) -> None:
    first, second = make_router(name="a").start(), make_router(name="b")
    text = (second.folder / "router.toml").read_text()
    key = "listen" if door == "listen" else "metrics_listen"
    taken = f'{key} = "{first.addresses[door]}"'
    (second.folder / "router.toml").write_text(re.sub(rf'^{key} = "127.0.0.1:0"', taken, text, flags=re.MULTILINE))
    second.spawn()
    assert second.process is not None
    assert second.process.wait(60) == 2
    assert f"{key}: cannot listen" in second.events("refused-to-start")[-1]["reason"]


def test_init_writes_the_defaults_and_never_overwrites(tmp_path: Path) -> None:
    secroute("router", "init", cwd=tmp_path)
    assert (tmp_path / "router.toml").read_text() == TEMPLATE
    assert "not overwritten" in secroute("router", "init", cwd=tmp_path, status=2)
    shown = parse_config(tomllib.loads(TEMPLATE), tmp_path)
    plain = parse_config({}, tmp_path)
    for section in ("listen", "metrics_listen", "store", "sessions", "durable", "guard", "limits"):
        assert getattr(shown, section) == getattr(plain, section), section
    every = {name for part in tomllib.loads(TEMPLATE).values() if isinstance(part, dict) for name in part}
    for section in ("store", "sessions", "durable", "guard", "limits"):
        assert set(getattr(Config(), section).__slots__) <= every, f"[{section}] lacks a key in the template"
    assert shown.clients[0] == type(shown.clients[0])(name="*")


SPY = """
import atexit, sys
from secroute.cli.main import main
atexit.register(lambda: print("MODULES", *sorted(m for m in sys.modules if m.startswith("secroute")), flush=True))
sys.exit(main(sys.argv[1:]))
"""


def test_a_running_router_has_loaded_no_trusted_module(make_router: MakeRouter) -> None:
    router = make_router()
    words = [sys.executable, "-c", SPY, "router", "run", "--config", "router.toml", "--insecure"]
    words += ["--address-file", "address.json"]
    with subprocess.Popen(
        words, cwd=router.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        wait_for(lambda: (router.folder / "address.json").exists(), "the router to listen", 60)

        async def scenario() -> None:
            async with RawClient(router.target) as client:
                await client.hello()
                await client.subscribe(1, filters_for([1]), durable=durable())
                await client.publish(message_batch([1]))
                await client.collect(1, 1)
                await client.send(frames.Goodbye())

        asyncio.run(scenario())
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    loaded = next(line for line in out.splitlines() if line.startswith("MODULES")).split()[1:]
    assert "secroute.router.node" in loaded
    trusted = ("content", "exact", "keyring", "encoding", "client", "audit")
    assert not [name for name in loaded if name.split(".")[1:2] and name.split(".")[1] in trusted]
