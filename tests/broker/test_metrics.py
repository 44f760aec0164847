"""`/metrics`, `/healthz` and `/readyz` of a running broker, as Prometheus and others see them."""

import errno
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla import measures
from ottla.broker.embedded import Broker
from ottla.broker.families import LATE_AFTER_MS
from ottla.broker.meters import SAMPLED_OF
from ottla.broker.partition import Partition
from ottla.coordinator.config import TransactionConfig
from ottla.errors import ErrorCode
from ottla.log.files import CLEAN_SHUTDOWN
from ottla.records.builder import BatchOptions, build
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.txn_wire import TxnWire
from tests.broker.wire_client import TIMEOUT_S, WireClient, batch_of

TOPIC = "orders"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """One that syncs what it acknowledges."""
    with Broker(tmp_path, config={"ottla.metrics.port": 0}) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as connected:
        assert connected.create_topic(TOPIC) == ErrorCode.NONE
        yield connected


def read(broker: Broker, path: str) -> tuple[int, str]:
    """Status and text of a page."""
    assert broker._server is not None
    address = broker._server.metrics_address
    assert address is not None
    url = f"http://127.0.0.1:{address[1]}{path}"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def metrics(broker: Broker) -> dict[str, float]:
    """Every number by its name and labels."""
    status, text = read(broker, "/metrics")
    assert status == 200
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_traffic_is_counted_by_topic(broker: Broker, client: WireClient) -> None:
    batch = batch_of(b"a", b"b", b"c")
    for _ in range(2):
        assert client.produce(TOPIC, batch).error_code == ErrorCode.NONE
    assert len(client.values(TOPIC)) == 6

    told = metrics(broker)

    prefix, label = "kafka_server_brokertopicmetrics_", f'{{topic="{TOPIC}"}}'
    assert told[f"{prefix}messagesin_total{label}"] == 6
    assert told[f"{prefix}bytesin_total{label}"] == 2 * len(batch)
    assert told[f"{prefix}bytesout_total{label}"] == 2 * len(batch)
    place = f'{{topic="{TOPIC}",partition="0"}}'
    assert told[f"kafka_log_log_size{place}"] == 2 * len(batch)
    assert told[f"kafka_topic_partition_current_offset{place}"] == 6
    assert told[f"kafka_topic_partition_oldest_offset{place}"] == 0


def test_requests_are_counted_and_timed(broker: Broker, client: WireClient) -> None:
    for _ in range(3):
        client.produce(TOPIC, batch_of(b"a"))

    told = metrics(broker)

    label = '{request="Produce"}'
    assert told[f"kafka_network_requestmetrics_requests_total{label}"] == 3
    assert told[f"ottla_request_seconds_count{label}"] == 3
    assert told['ottla_request_seconds_bucket{request="Produce",le="+Inf"}'] == 3
    median_ms = told['kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.5"}']
    assert 0 < median_ms <= told[f"ottla_request_seconds_sum{label}"] * 1000 * 10
    assert told["ottla_fsync_seconds_count"] >= 3
    assert told["ottla_loop_lag_seconds"] >= 0
    assert told["kafka_server_socket_server_metrics_connection_count"] == 1
    assert told["kafka_controller_kafkacontroller_activecontrollercount"] == 1
    assert told["kafka_server_replicamanager_leadercount"] == 1
    assert told["kafka_server_replicamanager_partitioncount"] == 1
    assert told["ottla_disk_free_bytes"] > 0


def test_what_producers_are_refused_with_is_counted_by_topic_and_error(
    broker: Broker, client: WireClient
) -> None:
    assert client.create_topic("menu", max_message_bytes=10) == ErrorCode.NONE
    for _ in range(2):
        assert client.produce("menu", batch_of(b"tea")).error_code == ErrorCode.MESSAGE_TOO_LARGE
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.produce("nothing", batch_of(b"tea")).error_code == gone
    refused = client.produce("anything", batch_of(b"tea"), acks=7)
    assert refused.error_code == ErrorCode.INVALID_REQUIRED_ACKS

    _, page = read(broker, "/metrics/traffic")

    told = [line for line in page.splitlines() if line.startswith("ottla_produce_refused_total")]
    assert told == ['ottla_produce_refused_total{topic="menu",error="MESSAGE_TOO_LARGE"} 2']
    assert 'kafka_network_requestmetrics_requests_total{request="Produce"} 4' in page
    assert "kafka_log_log_size" not in page  # which has a number for every partition


def test_a_sample_of_many_requests_stands_for_all(broker: Broker, client: WireClient) -> None:
    for _ in range(3 * SAMPLED_OF + 2):
        client.fetch(TOPIC, max_wait_ms=0)

    told = metrics(broker)

    fetch_count = told['kafka_network_requestmetrics_requests_total{request="Fetch"}']
    assert fetch_count == 3 * SAMPLED_OF + 2
    assert told['ottla_request_seconds_count{request="Fetch"}'] == 3 * SAMPLED_OF


def test_a_fetch_that_waits_is_timed_to_its_end(broker: Broker, client: WireClient) -> None:
    client.fetch(TOPIC, max_wait_ms=60, min_bytes=1)

    assert metrics(broker)['ottla_request_seconds_sum{request="Fetch"}'] > 0.05


def commit(client: WireClient, offset: int) -> None:
    """The group kitchen has read so far."""
    place = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=None
    )
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=(place,))
    request = OffsetCommitRequest(
        group_id="kitchen", generation_id_or_member_epoch=-1, member_id="", topics=(topic,)
    )
    answer = client.ask(request, 8)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def test_prometheus_reads_every_metric_that_is_declared_and_no_other(
    broker: Broker, client: WireClient
) -> None:
    client.produce(TOPIC, batch_of(b"a"))
    commit(client, 0)
    declared = {metric.name: metric for metric in measures.ALL}

    families = list(text_string_to_metric_families(read(broker, "/metrics")[1]))

    # The parser calls a counter by its name without `_total`.
    told = {f.name + "_total" * (f.type == "counter"): f for f in families}
    assert set(told) == measures.told_by("broker")
    for name, family in told.items():
        assert (family.type, family.documentation) == (declared[name].kind, declared[name].text)
        for sample in family.samples:
            assert sample.name in declared[name].sample_names
            assert set(sample.labels) - {"le"} == set(declared[name].labels)


def test_the_lag_of_groups_is_told_without_an_exporter(broker: Broker, client: WireClient) -> None:
    client.produce(TOPIC, batch_of(b"a", b"b", b"c"))
    commit(client, 1)

    told = metrics(broker)

    place = f'{{consumergroup="kitchen",topic="{TOPIC}",partition="0"}}'
    assert told[f"kafka_consumergroup_current_offset{place}"] == 1
    assert told[f"kafka_consumergroup_lag{place}"] == 2
    assert told[f'kafka_consumergroup_lag_sum{{consumergroup="kitchen",topic="{TOPIC}"}}'] == 2
    assert told['kafka_consumergroup_members{consumergroup="kitchen"}'] == 0


def test_lag_in_seconds_is_the_age_of_what_was_not_committed(
    broker: Broker, client: WireClient
) -> None:
    now_ms = int(time.time() * 1000)
    for written_ms in (now_ms - 3_600_000, now_ms):
        client.produce(TOPIC, build([(written_ms, b"k", b"v", ())], BatchOptions()))
    name = f'kafka_consumergroup_lag_seconds{{consumergroup="kitchen",topic="{TOPIC}",'

    ages_s = []
    for offset in (0, 1, 2):
        commit(client, offset)
        ages_s += [number for told, number in metrics(broker).items() if told.startswith(name)]

    assert ages_s[0] >= 3600
    assert ages_s[1] < 3600
    assert ages_s[2] == 0


def test_rebalances_of_a_group_are_counted(broker: Broker, client: WireClient) -> None:
    label = '{consumergroup="kitchen"}'
    for _ in range(2):
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        joined = client.ask(
            JoinGroupRequest(
                group_id="kitchen",
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                member_id="",
                protocol_type="consumer",
                protocols=(protocol,),
            ),
            3,
        )
        assert joined.error_code == ErrorCode.NONE
        leaver = MemberIdentity(member_id=joined.member_id)
        client.ask(LeaveGroupRequest(group_id="kitchen", members=(leaver,)), 4)

    told = metrics(broker)

    # A join and a leave each: an empty group has nobody left to wait for.
    assert told[f"ottla_group_rebalances_total{label}"] == 4
    assert told[f"ottla_group_rebalance_seconds_total{label}"] >= 0


def test_ends_of_transactions_and_fenced_producers_are_counted(
    broker: Broker, client: WireClient
) -> None:
    cook, successor = TxnWire(client, "cook"), TxnWire(client, "cook")
    cook.init()
    for is_commit in (True, False):
        cook.produce(TOPIC, b"a")
        cook.finish(commit=is_commit)
    successor.init()
    assert cook.end(commit=True).error_code == ErrorCode.PRODUCER_FENCED

    told = metrics(broker)

    assert told["ottla_transactions_committed_total"] == 1
    assert told["ottla_transactions_aborted_total"] == 1
    assert told["ottla_fenced_producers_total"] == 1


def test_what_an_open_transaction_holds_back_is_told(broker: Broker, client: WireClient) -> None:
    producer = TxnWire(client, "cook")
    producer.init()
    producer.produce(TOPIC, b"a")
    client.produce(TOPIC, batch_of(b"b", b"c"))
    place = f'{{topic="{TOPIC}",partition="0"}}'

    assert metrics(broker)[f"kafka_cluster_partition_laststableoffsetlag{place}"] == 3

    producer.finish()
    producer.init()
    assert metrics(broker)[f"kafka_cluster_partition_laststableoffsetlag{place}"] == 0


def test_a_transaction_that_hangs_is_told(broker: Broker, client: WireClient) -> None:
    """As one whose coordinator has lost it: nobody will end it, and its time is long over."""
    name = "kafka_server_replicamanager_partitionswithlatetransactionscount"
    producer = TxnWire(client, "cook")
    producer.init()
    producer.produce(TOPIC, b"a")
    assert metrics(broker)[name] == 0
    late_ms = int(time.time() * 1000) - LATE_AFTER_MS - TransactionConfig().max_timeout_ms - 60_000

    client.produce(TOPIC, batch_of(b"b"))  # another producer's work does not matter
    assert broker._server is not None
    partition = broker._server._partitions.find(TOPIC, 0)
    assert isinstance(partition, Partition)
    (state,) = [found for found in partition.producers if found.open_since_offset is not None]
    state.seen_ms = late_ms

    assert metrics(broker)[name] == 1


def test_open_transactions_are_told_with_the_age_of_the_oldest(
    broker: Broker, client: WireClient
) -> None:
    producer = TxnWire(client, "cook")
    assert producer.init().error_code == ErrorCode.NONE
    assert metrics(broker)["ottla_transactions_open"] == 0
    producer.produce(TOPIC, b"a")

    told = metrics(broker)

    assert told["ottla_transactions_open"] == 1
    assert told["ottla_transaction_oldest_seconds"] >= 0
    producer.finish()
    producer.init()  # which waits until the last one has ended
    assert metrics(broker)["ottla_transactions_open"] == 0


def test_a_broker_that_serves_is_healthy_and_ready(broker: Broker) -> None:
    assert read(broker, "/healthz") == (200, "ok\n")
    assert read(broker, "/readyz") == (200, "ready\n")
    assert read(broker, "/") == (404, "Not Found\n")


def test_a_partition_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    offline = "kafka_controller_kafkacontroller_offlinepartitionscount"
    with Broker(tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        assert client.create_topic(TOPIC) == ErrorCode.NONE
        assert client.produce(TOPIC, batch_of(b"a")).error_code == ErrorCode.NONE
    (segment,) = tmp_path.glob(f"{TOPIC}-0/*.log")
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    segment.unlink()  # what is lost was durable: the partition must not begin anew

    with Broker(tmp_path, config={"ottla.metrics.port": 0}) as broker:
        assert metrics(broker)[offline] == 1


def test_nothing_listens_unless_it_is_asked_for(module_broker: Broker) -> None:
    assert module_broker._server is not None
    assert module_broker._server.metrics_address is None


def test_a_port_that_is_taken_is_named(broker: Broker, tmp_path: Path) -> None:
    assert broker._server is not None
    assert broker._server.metrics_address is not None
    port = broker._server.metrics_address[1]

    with pytest.raises(OSError, match=rf"127\.0\.0\.1:{port}") as raised:
        Broker(tmp_path / "other", config={"ottla.metrics.port": port}).start()

    assert raised.value.errno == errno.EADDRINUSE
