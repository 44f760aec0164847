"""Transactions that are prepared, outlive their producer, and are ended by another (KIP-939)."""

from collections.abc import Iterator

import pytest

from ottla.errors import ErrorCode
from ottla.testing import TestBroker
from tests.broker.txn_wire import Identity, TxnWire, committed
from tests.broker.wire_client import WireClient

NO_ERROR = ErrorCode.NONE
DAY_S = 24 * 3600.0
NO_PRODUCER = (-1, -1)


@pytest.fixture(scope="module")
def patient_broker() -> Iterator[TestBroker]:
    with TestBroker(config={"transaction.two.phase.commit.enable": True}) as broker:
        yield broker


@pytest.fixture
def wire(patient_broker: TestBroker) -> Iterator[WireClient]:
    with WireClient(patient_broker.bootstrap_servers) as wire:
        yield wire


@pytest.fixture
def orders(patient_broker: TestBroker, request: pytest.FixtureRequest) -> str:
    """A topic from which time takes nothing; also the transactional id."""
    name = str(request.node.name)[:200].replace("[", "-").replace("]", "")
    patient_broker.create_topic(name, config={"retention.ms": "-1"})
    return name


@pytest.fixture
def prepared(wire: WireClient, orders: str) -> TxnWire:
    """A producer with all written, and nothing decided."""
    producer = TxnWire(wire, orders)
    assert producer.init(enable2_pc=True, timeout_ms=-1).error_code == NO_ERROR
    assert producer.produce(orders, b"prepared").error_code == NO_ERROR
    return producer


def test_transactions_are_not_prepared_where_the_broker_does_not_allow_it(
    client: WireClient, topic: str
) -> None:
    producer = TxnWire(client, topic)
    for wish in ({"enable2_pc": True}, {"keep_prepared_txn": True}):
        answer = producer.init(**wish)
        assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_prepared_transaction_never_times_out(
    patient_broker: TestBroker, prepared: TxnWire, orders: str
) -> None:
    patient_broker.advance(3 * DAY_S)
    assert prepared.state == "Ongoing"

    prepared.finish()

    assert committed(prepared.client, orders) == [b"prepared"]


@pytest.mark.parametrize("commit", [True, False])
def test_another_process_ends_what_was_prepared(
    patient_broker: TestBroker, prepared: TxnWire, orders: str, commit: bool
) -> None:
    with WireClient(patient_broker.bootstrap_servers) as other:
        heir = TxnWire(other, orders)
        answer = heir.init(enable2_pc=True, keep_prepared_txn=True, timeout_ms=-1)
        ongoing = (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        assert (answer.error_code, ongoing) == (NO_ERROR, prepared.producer)
        assert heir.state == "Ongoing"
        # What is prepared can only be ended.
        assert heir.produce(orders, b"more").error_code == ErrorCode.INVALID_TXN_STATE

        heir.finish(commit=commit)

        assert committed(other, orders) == ([b"prepared"] if commit else [])
        heir.produce(orders, b"next")
        heir.finish()
        assert committed(other, orders)[-1] == b"next"


def test_who_prepared_it_is_fenced_by_who_takes_over(
    patient_broker: TestBroker, prepared: TxnWire, orders: str
) -> None:
    with WireClient(patient_broker.bootstrap_servers) as other:
        heir = TxnWire(other, orders)
        heir.init(enable2_pc=True, keep_prepared_txn=True, timeout_ms=-1)
        assert prepared.end(commit=False).error_code == ErrorCode.PRODUCER_FENCED
        heir.finish()
        assert prepared.produce(orders, b"x").error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert committed(other, orders) == [b"prepared"]


def test_taking_over_may_fail_half_way_and_be_tried_again(prepared: TxnWire, orders: str) -> None:
    shown = prepared.producer
    for _ in range(3):
        heir = TxnWire(prepared.client, orders)
        answer = heir.init(enable2_pc=True, keep_prepared_txn=True, timeout_ms=-1)
        ongoing = Identity(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        assert ongoing == shown
    heir.finish()
    assert committed(heir.client, orders) == [b"prepared"]


def test_a_producer_that_does_not_keep_it_aborts_what_was_prepared(
    prepared: TxnWire, orders: str
) -> None:
    heir = TxnWire(prepared.client, orders)
    answer = heir.init()
    assert answer.error_code == NO_ERROR
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == NO_PRODUCER
    assert committed(heir.client, orders) == []
    assert heir.client.fetch(orders).last_stable_offset == 2


def test_where_nothing_is_prepared_there_is_nothing_to_keep(wire: WireClient, orders: str) -> None:
    producer = TxnWire(wire, orders)
    for _ in range(2):
        answer = producer.init(enable2_pc=True, keep_prepared_txn=True, timeout_ms=-1)
        assert answer.error_code == NO_ERROR
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == NO_PRODUCER
        producer.produce(orders, b"a")
        producer.finish()
    assert committed(wire, orders) == [b"a", b"a"]


def test_what_was_prepared_survives_crashes(
    patient_broker: TestBroker, prepared: TxnWire, orders: str
) -> None:
    for keeps in (False, True, True):
        patient_broker.crash()
        patient_broker.restart()
        with WireClient(patient_broker.bootstrap_servers) as other:
            heir = TxnWire(other, orders)
            assert committed(other, orders) == []
            if keeps:
                answer = heir.init(enable2_pc=True, keep_prepared_txn=True, timeout_ms=-1)
                assert answer.ongoing_txn_producer_epoch == prepared.producer.epoch
    with WireClient(patient_broker.bootstrap_servers) as other:
        heir.client = other
        heir.finish()
        assert committed(other, orders) == [b"prepared"]
