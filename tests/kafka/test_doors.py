"""Our clients at the doors of a real Kafka: TLS, certificates of clients, every kind of SASL."""

import time
from typing import Any

import pytest

import ottla
from ottla.errors import CredentialsError, TrustError
from tests.kafka.guarded import MECHANISMS, SESSION_MS, Door, credentials

SOON_S = 90.0


def there_and_back(topic: str, options: dict[str, Any]) -> None:
    """A record goes to Kafka and comes back, in a group."""
    with ottla.Producer(**options) as producer:
        producer.send(topic, b"espresso").result(SOON_S)
    with ottla.Consumer(
        topic, group_id=f"of-{topic}", auto_offset_reset="earliest", **options
    ) as consumer:
        assert [record.value for record in consumer.poll(SOON_S)] == [b"espresso"]


def ask(options: dict[str, Any]) -> None:
    with ottla.Admin(**options) as admin:
        admin.list_topics()


def test_records_travel_over_tls(door: Door, topic: str) -> None:
    there_and_back(topic, door.options("TLS"))


def test_an_authority_that_we_do_not_know_is_not_trusted(door: Door) -> None:
    with pytest.raises(TrustError):
        ask(door.options("TLS", ssl_cafile=None))


def test_a_client_shows_its_certificate(door: Door, topic: str) -> None:
    there_and_back(topic, door.options("MUTUAL", ssl_certfile=door.ours))


@pytest.mark.parametrize("shown", ["nothing", "a stranger's"])
def test_a_client_without_a_good_certificate_is_told_so(door: Door, shown: str) -> None:
    options = door.options("MUTUAL")
    if shown != "nothing":
        options["ssl_certfile"] = door.strangers
    with pytest.raises(TrustError, match="another certificate") as caught:
        ask(options)
    assert caught.value.fatal


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", ["SASL", "SASLTLS"])
def test_a_client_says_who_it_is(door: Door, topic: str, listener: str, mechanism: str) -> None:
    there_and_back(topic, door.options(listener, **credentials(mechanism)))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", ["SASL", "SASLTLS"])
def test_a_client_that_cannot_prove_it_is_refused(
    door: Door, listener: str, mechanism: str
) -> None:
    options = door.options(listener, **credentials(mechanism, is_right=False))
    with pytest.raises(CredentialsError) as caught:
        ask(options)
    assert caught.value.fatal


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_long_connection_outlives_its_session(door: Door, topic: str, mechanism: str) -> None:
    """Kafka closes connections that do not say again who they are (KIP-368)."""
    with ottla.Producer(**door.options("BRIEF", **credentials(mechanism))) as producer:
        producer.send(topic, b"first").result(SOON_S)
        before = producer.metrics()["connection-creation-total"]
        end_s = time.monotonic() + 2.5 * SESSION_MS / 1000
        while time.monotonic() < end_s:
            producer.send(topic, b"more").result(SOON_S)
        assert producer.metrics()["connection-creation-total"] == before
