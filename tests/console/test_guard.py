"""Who is let in, and what a form needs to change something."""

import pytest
from starlette.testclient import TestClient

import ottla
from ottla.broker.embedded import Broker
from ottla.console.app import console
from ottla.console.settings import ConsoleSettings, new_password
from ottla.errors import ConfigError
from tests.console.browsing import WAIT_S, post, token
from tests.console.conftest import LOCAL


def settings_of(broker: Broker, **more: object) -> ConsoleSettings:
    more |= {"bootstrap_servers": broker.bootstrap_servers, "timeout_s": WAIT_S}
    return ConsoleSettings(**more)  # type: ignore[arg-type]


@pytest.mark.parametrize("fields", [{}, {"token": "guessed"}])
def test_a_form_from_elsewhere_changes_nothing(
    client: TestClient, broker: Broker, topic: str, fields: dict[str, str]
) -> None:
    answer = client.post(f"/topics/{topic}/delete", data={"confirm": topic, **fields})
    assert answer.status_code == 403
    with ottla.Admin(broker.bootstrap_servers) as admin:
        assert topic in admin.list_topics()


def test_another_origin_is_refused_even_with_the_token(client: TestClient, topic: str) -> None:
    fields = {"confirm": topic, "token": token(client)}
    headers = {"origin": "https://elsewhere.example"}
    answer = client.post(f"/topics/{topic}/delete", data=fields, headers=headers)
    assert answer.status_code == 403
    assert "elsewhere.example" in answer.text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "10.1.2.3", "", "[2001::1]:80"]
)
def test_another_name_for_this_machine_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 403


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1", "[::1]:8080", "[::1]"]
)
def test_names_of_loopback_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/healthz", headers={"host": host}).status_code == 200


def test_a_read_only_console_changes_nothing(broker: Broker, topic: str) -> None:
    with TestClient(console(settings_of(broker, is_read_only=True)), base_url=LOCAL) as client:
        assert "Delete" not in client.get(f"/topics/{topic}").text
        answer = client.post(f"/topics/{topic}/delete", data={"confirm": topic})
        assert answer.status_code == 403
        assert "read-only" in answer.text


def test_a_password_is_asked_for(broker: Broker) -> None:
    settings = settings_of(broker, host="0.0.0.0", password="open sesame: å")
    with TestClient(console(settings), base_url="http://anywhere.example") as client:
        answer = client.get("/")
        assert answer.status_code == 401
        assert "Basic" in answer.headers["www-authenticate"]
        assert client.get("/", auth=("me", "wrong")).status_code == 401
        assert client.get("/", headers={"authorization": "Basic !!!"}).status_code == 401
        assert client.get("/", headers={"authorization": "Bearer x"}).status_code == 401
        assert client.get("/", auth=("me", "open sesame: å")).status_code == 200
        assert client.get("/healthz").status_code == 200


def test_away_from_loopback_there_is_always_a_password() -> None:
    for host in ("0.0.0.0", "10.0.0.1", "", "example.org"):
        with pytest.raises(ConfigError):
            ConsoleSettings(bootstrap_servers="x:1", host=host)
    with pytest.raises(ConfigError):
        ConsoleSettings(bootstrap_servers="x:1", password="")
    assert len(new_password()) >= 16
    assert new_password() != new_password()


def test_pages_may_load_nothing_from_elsewhere(client: TestClient) -> None:
    answer = client.get("/")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"
    for part in ("<script>", "style=", "onclick", "http://", "https://"):
        assert part not in answer.text


def test_a_form_that_is_too_large_is_refused(client: TestClient, topic: str) -> None:
    answer = post(client, f"/topics/{topic}/messages", value="x" * 3_000_000)
    assert answer.status_code == 413


def test_a_form_of_unknown_length_is_refused(client: TestClient, topic: str) -> None:
    answer = client.post(f"/topics/{topic}/messages", content=iter([b"value=x"]))
    assert answer.status_code == 411
