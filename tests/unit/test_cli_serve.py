"""What `ottla serve` makes of its options and files, before it starts anything."""

import errno
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ottla.cli import main as cli
from ottla.cli.server_file import read_settings
from ottla.cli.serving import ServeOptions, checked_config, reached, settings_from_options
from ottla.errors import ConfigError


def from_options(given: dict[str, object] | None = None, **options: Any) -> dict[str, object]:
    return settings_from_options(ServeOptions(**options), given or {}, None)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_a_broker_listens_on_this_machine_if_nobody_says_otherwise() -> None:
    assert from_options() == {"listeners": "PLAINTEXT://localhost:9092"}


@pytest.mark.parametrize(
    ("options", "listener"),
    [
        ({"port": 0}, "PLAINTEXT://localhost:0"),
        ({"host": "::1", "port": 1}, "PLAINTEXT://[::1]:1"),
        ({"host": "10.0.0.4"}, "PLAINTEXT://10.0.0.4:9092"),
        ({"host": ""}, "PLAINTEXT://:9092"),
    ],
)
def test_host_and_port_make_a_listener(options: dict[str, Any], listener: str) -> None:
    assert from_options(**options)["listeners"] == listener


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("localhost", "localhost:9092"),
        ("10.0.0.4", "10.0.0.4:9092"),
        ("::1", "[::1]:9092"),
        ("::", "localhost:9092"),
        ("", "localhost:9092"),
    ],
)
def test_a_console_beside_a_broker_is_told_an_address_that_can_be_connected_to(
    host: str, address: str
) -> None:
    assert reached(host, 9092) == address


def test_a_listener_in_the_file_stays_unless_an_option_names_another() -> None:
    in_file: dict[str, object] = {"listeners": "PLAINTEXT://localhost:19092"}
    assert "listeners" not in from_options(in_file)
    assert from_options(in_file, port=1)["listeners"] == "PLAINTEXT://localhost:1"


@pytest.mark.parametrize(
    "text",
    [
        'num.partitions = 6\nlog.dirs = "x"',
        '"num.partitions" = 6\n"log.dirs" = "x"',
        '[num]\npartitions = 6\n[log]\ndirs = "x"',
    ],
)
def test_a_dotted_name_may_be_written_in_each_way_that_toml_has(text: str, tmp_path: Path) -> None:
    assert read_settings(write(tmp_path, "ottla.toml", text)) == {
        "num.partitions": 6,
        "log.dirs": "x",
    }


def test_a_file_of_kafka_works_as_it_is(tmp_path: Path) -> None:
    text = "# The broker\n\nnode.id=4\nlisteners=PLAINTEXT://localhost:9092\n! old comment\n"
    assert read_settings(write(tmp_path, "server.properties", text)) == {
        "node.id": "4",
        "listeners": "PLAINTEXT://localhost:9092",
    }


@pytest.mark.parametrize(("name", "text"), [("a.toml", "= 1"), ("a.properties", "nonsense")])
def test_a_file_that_cannot_be_read_is_named(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=name):
        read_settings(write(tmp_path, name, text))


def test_other_machines_need_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["serve", "--host", "0.0.0.0"]) == cli.USAGE
    shown = capsys.readouterr().err
    assert "there is no TLS and no SASL yet" in shown
    assert "hint:  --insecure" in shown


def test_the_word_may_stand_in_the_file() -> None:
    config = checked_config({"listeners": ["PLAINTEXT://10.0.0.4:9092"], "ottla.insecure": "true"})
    assert config.listener.host == "10.0.0.4"


def test_clients_of_every_interface_are_told_a_name() -> None:
    config = checked_config({"listeners": "PLAINTEXT://0.0.0.0:9092", "ottla.insecure": True})
    assert config.advertised is not None
    assert config.advertised.host not in {"", "0.0.0.0"}
    assert config.advertised.port == 9092


def test_an_unknown_setting_stops_before_anything_happens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    assert cli.run(["serve", "--data-dir", str(folder), "-X", "num.partition=6"]) == cli.UNEXPECTED
    assert "num.partitions" in capsys.readouterr().err
    assert not folder.exists()


def test_a_data_directory_that_cannot_be_made_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path, "file", "") / "data"
    assert cli.run(["serve", "--port", "0", "--data-dir", str(folder)]) == cli.UNEXPECTED
    assert capsys.readouterr().err.splitlines() == [
        f"error: {folder}: Not a directory",
        "hint:  --data-dir names another folder, --port another port",
    ]


def test_an_address_of_another_machine_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = "192.0.2.1"  # one for documentation
    with socket.socket() as probe, suppress(OSError):
        probe.bind((host, 0))
        pytest.skip("this machine takes any address for its own")
    options = ["--host", host, "--port", "0", "--insecure"]
    assert cli.run(["serve", *options, "--data-dir", str(tmp_path)]) == cli.UNEXPECTED
    assert capsys.readouterr().err.splitlines() == [
        f"error: {host}:0: {os.strerror(errno.EADDRNOTAVAIL)}",
        "hint:  --host takes a name or an address of this machine",
    ]


def test_an_ephemeral_broker_takes_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["serve", "--ephemeral", "--data-dir", "x"]) == cli.USAGE
