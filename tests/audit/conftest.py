"""One small Spark session for all audit tests, with an event log, so that what Spark writes can be searched."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from secroute.audit import flights, publish
from secroute.audit.keys import run_keys
from secroute.audit.run import Audit, Plan
from secroute.audit.verdict import DEFAULT_POLICY
from secroute.content.files import write_messages, write_predicates
from secroute.keyring import TokenKeys
from tests.audit import MESSAGES, PREDICATES


@pytest.fixture(scope="session")
def spark_dirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: tmp_path_factory.mktemp(name) for name in ("local", "events", "warehouse")}


@pytest.fixture(scope="session")
def spark(spark_dirs: dict[str, Path]) -> Iterator[Any]:
    from secroute.audit.session import open_session

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = open_session(
            "local[2]",
            memory="1g",
            settings={
                "spark.local.dir": str(spark_dirs["local"]),
                "spark.sql.warehouse.dir": str(spark_dirs["warehouse"]),
                "spark.eventLog.enabled": "true",
                "spark.eventLog.compress": "false",
                "spark.eventLog.dir": spark_dirs["events"].as_uri(),
                "spark.sql.shuffle.partitions": "2",
            },
        )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("flights")
    write_messages(root / "messages.jsonl", flights.messages(MESSAGES))
    write_messages(root / "messages.parquet", flights.messages(MESSAGES))
    write_predicates(root / "predicates.jsonl", flights.predicates(PREDICATES, interfaces=20))
    return root


@pytest.fixture(scope="session")
def make(spark: Any, files: Path) -> Callable[..., Audit]:
    """A run over the flights of the tests, under a throw-away key unless keys are given."""

    def made(out: Path, keys: TokenKeys | None = None, **more: Any) -> Audit:
        profile = keys.profile if keys else flights.profile()
        plan = Plan(str(files / "messages.jsonl"), str(files / "predicates.jsonl"), out, profile, partitions=2, **more)
        return Audit(spark, plan, keys or run_keys(profile, None, None))

    return made


@pytest.fixture(scope="session")
def audit(make: Callable[..., Audit], tmp_path_factory: pytest.TempPathFactory) -> Audit:
    made = make(tmp_path_factory.mktemp("runs") / "one")
    made.run(with_sweep=False)
    publish.publish(made, DEFAULT_POLICY)
    return made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's own noise: its view of pandas (which the audit does not use), and sockets to its JVM."""
    for item in items:
        if "tests/audit" in str(item.path):
            item.add_marker(
                pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
            )
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
