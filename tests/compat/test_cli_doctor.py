"""`ottla doctor` with brokers that answer, that send clients astray, and that are none."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from ottla.broker.embedded import Broker
from ottla.cli import main as cli
from ottla.cli.doctor.clock_checks import TOPIC_PREFIX
from ottla.client.admin.admin import Admin
from ottla.model import TopicPartition
from ottla.testing import TestBroker
from tests.compat.cli_samples import ottla, refusing_port

NOT_WELL = 8


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@contextmanager
def stranger(answer: bytes) -> Iterator[int]:
    """A server that says `answer` to whoever asks it something, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(60)


def told(result: Result) -> dict[str, dict[str, Any]]:
    """Every check by its name."""
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    return {line["what"]: line for line in lines}


def ask(*arguments: object, bootstrap: str) -> Result:
    return ottla("doctor", "broker", *arguments, "-b", bootstrap, "-o", "json")


def test_a_broker_that_can_be_reached_is_well(broker: Broker) -> None:
    result = ask(bootstrap=broker.bootstrap_servers)

    assert result.exit_code == cli.OK, result.stderr
    checks = told(result)
    assert {check["state"] for check in checks.values()} == {"ok"}
    assert (
        "transaction.version 2" in checks[f"broker {broker.bootstrap_servers}, features"]["found"]
    )
    assert broker.bootstrap_servers in checks["advertised listener of broker 1"]["found"]


def test_a_broker_that_sends_clients_astray_is_found_out() -> None:
    with refusing_port() as port:
        advertised = f"PLAINTEXT://127.0.0.1:{port}"
        with Broker(config={"advertised.listeners": advertised}) as broker:
            assert broker._server is not None
            bootstrap = f"127.0.0.1:{broker._server.address[1]}"

            result = ask(bootstrap=bootstrap)

    assert result.exit_code == NOT_WELL
    checks = told(result)
    assert checks[f"broker {bootstrap}"]["state"] == "ok"
    astray = checks["advertised listener of broker 1"]
    assert astray["state"] == "fail"
    assert f"127.0.0.1:{port}, where clients are sent, refuses connections" in astray["found"]
    assert "--advertise" in astray["advice"]
    assert "clock" not in checks, "no client would get there"
    assert "advertised listener of broker 1" in result.stderr


def test_nobody_at_an_address_is_a_failure_where_one_was_named() -> None:
    with refusing_port() as port:
        result = ask(bootstrap=f"127.0.0.1:{port}")

    assert result.exit_code == NOT_WELL
    assert told(result)[f"broker 127.0.0.1:{port}"]["found"] == "refuses connections"


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is no broker"),
        (b"", "hangs up when asked for its versions"),
        (b"\0\0\0\4\0\0\0\1", "is no broker"),
    ],
    ids=["HTTP", "nothing", "nonsense"],
)
def test_a_server_that_is_no_broker_is_told_apart(answer: bytes, found: str) -> None:
    with stranger(answer) as port:
        result = ask(bootstrap=f"127.0.0.1:{port}")

    assert result.exit_code == NOT_WELL
    assert found in told(result)[f"broker 127.0.0.1:{port}"]["found"]


def test_one_address_of_several_may_be_dead(broker: Broker) -> None:
    with refusing_port() as port:
        result = ask(bootstrap=f"127.0.0.1:{port},{broker.bootstrap_servers}")

    checks = told(result)
    assert result.exit_code == NOT_WELL
    assert checks[f"broker 127.0.0.1:{port}"]["state"] == "fail"
    assert checks["advertised listener of broker 1"]["state"] == "ok"


def test_a_record_goes_there_and_back_and_leaves_nothing(broker: Broker) -> None:
    result = ask("--write", bootstrap=broker.bootstrap_servers)

    assert result.exit_code == cli.OK, result.stderr
    checks = told(result)
    assert "acknowledged" in checks["round trip"]["found"]
    assert "agree" in checks["clock"]["found"]
    with Admin(broker.bootstrap_servers) as admin:
        assert not [name for name in admin.list_topics() if name.startswith(TOPIC_PREFIX)]


def test_a_broker_that_never_acknowledges_is_found_out() -> None:
    with TestBroker() as broker, broker.faults.stall("Produce"):
        result = ask("--write", "--timeout", 2, bootstrap=broker.bootstrap_servers)

    assert result.exit_code == NOT_WELL, result.stderr
    assert "fail" in {check["state"] for check in told(result).values()}


def test_a_broker_of_ours_tells_its_time_with_a_group() -> None:
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("orders", partitions=1)
            admin.alter_group_offsets("kitchen", {TopicPartition("orders", 0): 0})

        checks = told(ask(bootstrap=broker.bootstrap_servers))

    assert "agree" in checks["clock"]["found"]


def test_the_doctor_looks_at_everything(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)

    servers = broker.bootstrap_servers
    result = ottla("doctor", "-b", servers, "--timeout", 60, "--data-dir", tmp_path, "-o", "json")

    checks = told(result)
    assert {"Python", "codecs", "files", f"data directory {tmp_path}", "clock"} <= set(checks)
    assert any(what.startswith("Spark") for what in checks)
    port = broker.bootstrap_servers.rpartition(":")[2]
    assert checks[f"port {port}"]["found"] == "taken, by the broker that answers there"
    has_failed = "fail" in {check["state"] for check in checks.values()}
    assert result.exit_code == (NOT_WELL if has_failed else cli.OK)


def test_an_option_before_the_command_is_not_lost_unnoticed() -> None:
    result = ottla("doctor", "-b", "localhost:1", "broker")

    assert result.exit_code == cli.USAGE
    assert "put --bootstrap behind `broker`" in result.stderr
