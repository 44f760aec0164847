"""What importing Ottla costs: names of modules, because times depend on the machine."""

import json
import subprocess
import sys

import pytest

HEAVY = {"asyncio", "click", "cramjam", "pyarrow", "numpy", "rich", "ssl"}
SCRIPT = """
import json, sys
before = set(sys.modules)
import {module}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def modules_pulled_in_by(module: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(module=module)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(json.loads(done.stdout))


def pulled_in_by(module: str) -> set[str]:
    return {name.partition(".")[0] for name in modules_pulled_in_by(module)}


@pytest.mark.parametrize(
    "module",
    ["ottla", "ottla.errors", "ottla.wire.codec", "ottla.records.batch", "ottla.records.builder"],
)
def test_nothing_heavy_is_imported_before_it_is_used(module: str) -> None:
    pulled_in = pulled_in_by(module)
    assert "ottla" in pulled_in
    assert not pulled_in & HEAVY


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    ours = {name for name in modules_pulled_in_by("ottla") if name.startswith("ottla")}
    assert ours == {"ottla"}


def test_listing_the_commands_imports_none_of_them() -> None:
    assert not pulled_in_by("ottla.cli.main") & (HEAVY - {"click"})


@pytest.mark.parametrize(
    "module",
    ["ottla.spark.source.stream", "ottla.spark.source.batch", "ottla.spark.source.brokers"],
)
def test_spark_reaches_brokers_by_the_protocol_alone(module: str) -> None:
    assert not [name for name in modules_pulled_in_by(module) if name.startswith("ottla.broker")]
