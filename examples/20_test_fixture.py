"""pytest: the fixtures come with the package.  No containers, no JVM; run it with `pytest`."""

from datetime import timedelta

import ottla
from ottla.testing import TestBroker


def run_enricher(bootstrap_servers: str, topic: str, count: int) -> None:
    """Copy `count` records, exactly once."""
    with (
        ottla.Consumer(
            topic,
            bootstrap_servers=bootstrap_servers,
            group_id="enricher",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer,
        ottla.Producer(bootstrap_servers, transactional_id="enricher-1") as producer,
    ):
        while count > 0:
            batch = consumer.poll(max_records=count)
            try:
                with producer.transaction(batch) as tx:
                    for record in batch:
                        tx.send("orders.enriched", record.value)
            except ottla.BrokerError:
                continue  # aborted, and rewound: the same records come again
            count -= len(batch)


def test_the_enricher_is_exactly_once(ottla_broker: TestBroker, ottla_topic: str) -> None:
    ottla_broker.produce(ottla_topic, '{"id": 1}', '{"id": 2}')
    ottla_broker.faults.fail("TxnOffsetCommit", ottla.ErrorCode.UNKNOWN_SERVER_ERROR)
    run_enricher(ottla_broker.bootstrap_servers, ottla_topic, 2)
    enriched = ottla_broker.wait_for("orders.enriched", 2)
    assert [record.value for record in enriched] == [b'{"id": 1}', b'{"id": 2}']


def test_time_passes_without_sleeping(ottla_broker: TestBroker, ottla_topic: str) -> None:
    ottla_broker.produce(ottla_topic, "early")
    ottla_broker.advance(timedelta(hours=1))
    ottla_broker.produce(ottla_topic, "late")
    early, late = ottla_broker.records(ottla_topic)
    assert late.timestamp_ms - early.timestamp_ms >= 3_600_000
