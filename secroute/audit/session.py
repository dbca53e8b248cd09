"""One Spark session for an audit: found Java, quiet logs, Arrow batches, Python workers that are started once.

TRUSTED side. Nothing secret is ever put into the configuration; only paths travel.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

from secroute.errors import AuditError

ARROW_ROWS = 8_192
_LOG_FILE = Path(__file__).with_name("log4j2.properties").as_uri()
_MASTERS = re.compile(r"local(\[[^\]]+\])?|local-cluster\[\d+,\d+,\d+\]|yarn|(spark|k8s)://.+")


def require_java() -> None:
    """Raise unless a Java runtime can be found: Spark's own message is a page of shell errors."""
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise AuditError(f"JAVA_HOME is {home}, which holds no bin/java; point it at a Java 17 runtime")
    if not home and shutil.which("java") is None:
        raise AuditError("Spark needs Java and there is none on the PATH; install a Java 17 runtime or set JAVA_HOME")


def open_session(
    master: str = "local[*]",
    *,
    memory: str = "2g",
    log_level: str = "",
    settings: dict[str, str] | None = None,
    name: str = "secroute audit",
) -> Any:
    """A session on ``master``. Workers run this Python with this package.

    Spark's own log is off on this machine, where every failure reaches us as an exception and a job that is stopped
    would end in pages of Java frames; on a cluster it shows errors, which are all that executors can say.
    """
    if not _MASTERS.fullmatch(master):
        raise AuditError(
            f"--master {master!r}: not local[N], local-cluster[workers,cores,MiB], spark://..., k8s://... or yarn"
        )
    require_java()
    from pyspark.sql import SparkSession

    # Spark warns about the installed pandas at every job; the audit hands it Arrow batches and no pandas.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    root = str(Path(__file__).resolve().parents[2])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark warns about the host's name at every start
    log_level = log_level or ("OFF" if master.startswith("local") else "ERROR")
    builder = SparkSession.builder.master(master).appName(name)
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "true" if sys.stderr.isatty() else "false",
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1" if master.startswith("local") else "",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
        "spark.sql.shuffle.partitions": "8",
        "spark.python.worker.reuse": "true",
        "spark.sql.files.maxPartitionBytes": "16m",
        "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={_LOG_FILE}" -Dsecroute.spark.log={log_level}',
        # Separate executors find the package where the driver has it; on a cluster it is installed on every worker.
        "spark.executorEnv.PYTHONPATH": root,
        # One thread a worker: Spark's tasks are the parallelism.
        "spark.executorEnv.NUMBA_NUM_THREADS": "1",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
    }
    for key, value in {**options, **(settings or {})}.items():
        if value:
            builder = builder.config(key, value)
    return builder.getOrCreate()
