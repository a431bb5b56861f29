"""The examples run as a user would run them, and docs/spark.md does what it says."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(tmp_path: Path, *command: object) -> str:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    done = subprocess.run(
        list(map(str, command)), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


class TestInThisProcess:
    """In the session of the tests, which is quicker than one of their own; `spark.stop` is left out."""

    @pytest.fixture
    def example(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
        def run(name: str, *arguments: str) -> str:
            monkeypatch.syspath_prepend(str(EXAMPLES))
            monkeypatch.setattr(sys, "argv", [name, *arguments])
            monkeypatch.setattr(type(spark), "stop", lambda self: None)
            found = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
            assert found is not None and found.loader is not None
            module = importlib.util.module_from_spec(found)
            found.loader.exec_module(module)
            monkeypatch.setattr(module, "make_session", lambda _: spark)
            module.main()
            return str(capsys.readouterr().out)

        return run

    def test_batch(self, example: Any) -> None:
        out = example("batch_job", "--subscriptions", "500", "--rows", "300")
        assert "published 500 campaigns as version 1" in out
        assert re.search(r"all matches of 300 visitors: [\d,]+\n", out)
        assert re.search(r"\|0 +\|Madrid\|ad-\d+", out)

    @pytest.mark.slow
    def test_streaming(self, example: Any, tmp_path: Path) -> None:
        arguments = ["--subscriptions", "300", "--folder", str(tmp_path)]
        out = example("streaming_job", *arguments, "--rows", "1200")
        assert "published version 2 meanwhile" in out
        assert len(re.findall(r"^batch \d: version \d", out, re.MULTILINE)) == 3
        assert re.search(r"batch, version, matches:\n {2}0 1 \d+\n", out)
        again = example("streaming_job", *arguments, "--rows", "1600")
        assert re.findall(r"^batch (\d):", again, re.MULTILINE) == ["3"]

    def test_sql(self, example: Any) -> None:
        out = example("sql_job")
        assert re.search(r"\| +city\|matches\|score\|", out)
        assert re.search(r"\| *Oslo\| +\d+\|", out)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["batch_job", "streaming_job", "sql_job"])
def test_with_python(tmp_path: Path, name: str) -> None:
    assert run(tmp_path, sys.executable, EXAMPLES / f"{name}.py")


@pytest.mark.slow
def test_with_spark_submit(tmp_path: Path) -> None:
    from earmark.spark import ensure_java

    ensure_java()
    submit = Path(sys.executable).with_name("spark-submit")
    out = run(tmp_path, submit, "--master", "local[2]", EXAMPLES / "batch_job.py", "--rows", 500)
    assert "all matches of 500 visitors" in out


def test_the_definitions_of_the_pipeline(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its query functions, one after the other; what runs them in earnest needs pyspark[pipelines]."""
    from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context

    from earmark.spark import Snapshot, workload

    class Registry(GraphElementRegistry):
        def __init__(self) -> None:
            self.flows: dict[str, Any] = {}

        def register_output(self, output: Any) -> None: ...
        def register_auto_cdc_flow(self, flow: Any) -> None: ...
        def register_sql(self, sql_text: str, file_path: Path) -> None: ...
        def register_flow(self, flow: Any) -> None:
            self.flows[flow.name] = flow.func

    Snapshot.publish(workload(spark, "ads", "subscriptions", 500), tmp_path / "ads")
    monkeypatch.setenv("EXAMPLE_SNAPSHOT", str(tmp_path / "ads"))
    found = importlib.util.spec_from_file_location("matches", EXAMPLES / "pipeline" / "transformations" / "matches.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    module.__dict__["spark"] = spark
    registry = Registry()
    with graph_element_registration_context(registry):
        found.loader.exec_module(module)
    assert list(registry.flows) == ["visitors", "matches", "by_city"]
    for name, function in registry.flows.items():
        function().createOrReplaceTempView(name)
    assert spark.table("visitors").count() == 1_000
    by_city = {row.city: row.matches for row in spark.table("by_city").collect()}
    assert set(by_city) == {"Oslo", "Lima", "Paris"} and all(by_city.values())
    assert spark.table("matches").groupBy("event").count().agg({"count": "max"}).collect()[0][0] == 3


@pytest.mark.slow
def test_the_pipeline(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="needs pyspark[pipelines]")
    pytest.importorskip("yaml", reason="needs pyspark[pipelines]")
    assert "'city': 'Oslo'" in run(tmp_path, sys.executable, EXAMPLES / "pipeline" / "run.py")


def test_the_quick_start(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "spark.md").read_text()
    code, shown = re.findall(r"```(?:py)?\n(.*?)```", text[text.index("## Quick start") :], re.DOTALL)[:2]
    exec(code.replace("/shared/ads", str(tmp_path / "ads")), {})
    got = capsys.readouterr().out.strip().splitlines()
    assert sorted(got) == sorted(shown.strip().splitlines())
