"""One small Spark session for all audit tests, with an event log, so that what Spark writes can be searched."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's own noise: its view of pandas (which the audit does not use), and sockets to its JVM."""
    for item in items:
        if "tests/audit" in str(item.path):
            item.add_marker(
                pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
            )
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
