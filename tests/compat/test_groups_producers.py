"""Idempotent producers of each client: what is sent twice is written once."""

import asyncio
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from ottla.testing import TestBroker

TIMEOUT_S = 90
VALUES = [str(number).encode() for number in range(50)]


def send_with_confluent(bootstrap_servers: str, topic: str) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "retry.backoff.ms": 10,
            "batch.num.messages": 5,
            "linger.ms": 0,
        }
    )
    errors: list[Any] = []
    for value in VALUES:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None] * len(VALUES)


def send_with_kafka_python(bootstrap_servers: str, topic: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap_servers,
        enable_idempotence=True,
        retry_backoff_ms=10,
        batch_size=200,
    )
    for sent in [producer.send(topic, value) for value in VALUES]:
        sent.get(TIMEOUT_S)
    producer.close()


def send_with_aiokafka(bootstrap_servers: str, topic: str) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap_servers,
            enable_idempotence=True,
            retry_backoff_ms=10,
            max_batch_size=200,
        )
        await producer.start()
        try:
            sent = [await producer.send(topic, value) for value in VALUES]
            await asyncio.wait_for(asyncio.gather(*sent), TIMEOUT_S)
        finally:
            await producer.stop()

    asyncio.run(send())


SENDERS = (send_with_confluent, send_with_kafka_python, send_with_aiokafka)


@pytest.mark.parametrize("send", SENDERS)
def test_an_idempotent_producer_writes_in_order(
    ottla_broker: TestBroker, ottla_topic: str, send: Any
) -> None:
    ottla_broker.create_topic(ottla_topic)
    send(ottla_broker.bootstrap_servers, ottla_topic)
    assert [record.value for record in ottla_broker.records(ottla_topic)] == VALUES


@pytest.mark.parametrize("send", SENDERS)
def test_what_is_sent_again_after_a_lost_answer_is_written_once(
    ottla_broker: TestBroker, ottla_topic: str, send: Any
) -> None:
    ottla_broker.create_topic(ottla_topic)
    fault = ottla_broker.faults.drop_reply("Produce", times=2)
    send(ottla_broker.bootstrap_servers, ottla_topic)
    assert fault.hit_count == 2
    assert [record.value for record in ottla_broker.records(ottla_topic)] == VALUES


def test_without_idempotence_a_lost_answer_doubles_what_was_sent(
    ottla_broker: TestBroker, ottla_topic: str
) -> None:
    """That the fault is able to show it."""
    ottla_broker.create_topic(ottla_topic)
    ottla_broker.faults.drop_reply("Produce")
    producer = KafkaProducer(
        bootstrap_servers=ottla_broker.bootstrap_servers,
        enable_idempotence=False,
        acks="all",
        retries=5,
        retry_backoff_ms=10,
    )
    producer.send(ottla_topic, b"twice").get(TIMEOUT_S)
    producer.close()
    assert [record.value for record in ottla_broker.records(ottla_topic)] == [b"twice"] * 2
