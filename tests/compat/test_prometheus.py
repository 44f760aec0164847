"""Prometheus reads a broker, every panel of the dashboard has numbers, and each alert rings.

`make setup-prometheus` installs it; where it is not, all this is skipped, and what is left is the
test that every metric that is asked for exists (`tests/unit/test_dashboards.py`).
"""

import json
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.broker.embedded import Broker
from tests.compat.alarms import HEALTHY, RINGS, Situation
from tests.kafka_cluster import until

FOLDER = Path(__file__).parents[2] / "dashboards"
RULES = FOLDER / "rules.yml"
ALERTS = re.findall(r"- alert: (\w+)", RULES.read_text("utf-8"))
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "ottla.json").read_text("utf-8"))
PATIENCE_S = 120.0
LISTENING = re.compile(r"\"?Listening on\"? address=(127\.0\.0\.1:\d+)")

READY = "ready to receive web requests"

PROMETHEUS = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")

pytestmark = pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None,
    reason="no Prometheus here: make setup-prometheus installs it",
)


def promtool(*arguments: object) -> str:
    """What promtool says, and it must be content."""
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def alerts_that_ring(situation: Situation, rings: list[dict[str, Any]], folder: Path) -> None:
    """Have promtool compare; JSON is YAML."""
    ringing = {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "exp_samples": rings}
    at = f"{situation.at_min}m"
    test = {
        "interval": "1m",
        "input_series": [{"series": s, "values": v} for s, v in situation.series.items()],
        "promql_expr_test": [{**ringing, "eval_time": at}],
    }
    file = folder / "test.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "tests": [test]}), "utf-8")
    promtool("test", "rules", file)


def test_the_rules_are_what_prometheus_takes() -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", RULES)


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_rings(alert: str, tmp_path: Path) -> None:
    for situation in RINGS[alert]:
        rings = [{"labels": f'{{alertname="{alert}"}}', "value": 1}]
        alerts_that_ring(situation, rings, tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_broker_rings_no_alert(name: str, tmp_path: Path) -> None:
    alerts_that_ring(HEALTHY[name], [], tmp_path)


class Prometheus:
    """One that runs."""

    def __init__(self, address: str) -> None:
        self._url = f"http://{address}/api/v1"

    def ask(self, path: str, **question: str) -> Any:
        url = f"{self._url}/{path}?{urllib.parse.urlencode(question)}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return json.load(answer)["data"]

    def has_numbers_for(self, expression: str) -> bool:
        """Whether at least one series has a number now, as Grafana would ask for it."""
        for name in ("instance", "topic", "group"):
            expression = expression.replace(f"${name}", ".*")
        expression = expression.replace("$__rate_interval", "5m")
        found = self.ask("query", query=expression)["result"]
        return any(series["value"][1] != "NaN" for series in found)


@contextmanager
def prometheus(target: str, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that reads one broker every second."""
    assert PROMETHEUS is not None
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "ottla", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(settings), "utf-8")
    said = folder / "prometheus.log"
    options = {
        "config.file": folder / "prometheus.yml",
        "storage.tsdb.path": folder / "data",
        "web.listen-address": "127.0.0.1:0",
    }
    command = [PROMETHEUS, *(f"--{name}={value}" for name, value in options.items())]
    with said.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
    try:
        yield Prometheus(_address(process, said))
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], said: Path) -> str:
    """Where it listens, as soon as it is ready."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        text = said.read_text("utf-8")
        if (found := LISTENING.search(text)) and READY in text:
            return found[1]
        assert process.poll() is None, text
        assert time.monotonic() < deadline_s, text
        pause()


def pause() -> None:
    """What is asked for comes in its own time."""
    threading.Event().wait(0.1)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[Broker, Prometheus]]:
    """A broker that syncs what it acknowledges, and who watches it."""
    with Broker(tmp_path / "broker", config={"ottla.metrics.port": 0}) as broker:
        assert broker._server is not None
        address = broker._server.metrics_address
        assert address is not None
        with prometheus(f"127.0.0.1:{address[1]}", tmp_path) as running:
            yield broker, running


def some_of_everything(broker: Broker) -> None:
    """A transaction, and a group that reads what it wrote."""
    servers = broker.bootstrap_servers
    with (
        ottla.Producer(servers, transactional_id="till") as producer,
        producer.transaction() as transaction,
    ):
        transaction.send("orders", b"espresso")
    with ottla.Consumer(
        "orders", bootstrap_servers=servers, group_id="kitchen", auto_offset_reset="earliest"
    ) as consumer:
        consumer.poll(PATIENCE_S)


@pytest.mark.timeout(600)
def test_every_panel_of_the_dashboard_has_numbers(watched: tuple[Broker, Prometheus]) -> None:
    broker, running = watched
    asked = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    deadline_s = time.monotonic() + PATIENCE_S
    while asked := [expression for expression in asked if not running.has_numbers_for(expression)]:
        assert time.monotonic() < deadline_s, f"nothing is shown of {asked}"
        some_of_everything(broker)
        pause()

    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = variable["definition"][len("label_values(") : -1].split(", ")
            assert running.ask(f"label/{label}/values", **{"match[]": metric})
    until(lambda: rules_without_trouble(running) == set(ALERTS))


def rules_without_trouble(running: Prometheus) -> set[str]:
    """Those that were evaluated, and well."""
    rules = (rule for group in running.ask("rules")["groups"] for rule in group["rules"])
    return {rule["name"] for rule in rules if rule["health"] == "ok"}
