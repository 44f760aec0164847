"""A scripted broker that takes records and ends transactions, and producers in its simulation."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from ottla.client.engine import Engine
from ottla.client.faces import Host, SameLoop, Work
from ottla.client.producer.asynchronous import AsyncProducer
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.core import Core
from ottla.client.records import Batch, GroupMetadata, Span
from ottla.errors import DeliveryErrors, ErrorCode
from ottla.model import TopicPartition
from ottla.ports import Ports
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.wire.registry import ApiKey
from tests.client.scripted import BROKER, PORT, ScriptedBroker, Worlds, api_versions, topic

T = TypeVar("T")

PRODUCER_ID = 5
TOPIC = "orders"


class Taker(ScriptedBroker):
    """Takes everything, unless `refusals` has an answer for the partition."""

    def __init__(self, *leaders: int, node_id: int = 1, host: str = BROKER) -> None:
        super().__init__(node_id, host)
        self.topics = (topic(TOPIC, *leaders),)
        self.refusals: dict[int, list[ErrorCode]] = {}
        self.epoch = 0
        self.handlers |= {
            ApiKey.API_VERSIONS: api_versions(features={"transaction.version": 2}),
            ApiKey.INIT_PRODUCER_ID: self.init,
            ApiKey.PRODUCE: self.produce,
            ApiKey.ADD_PARTITIONS_TO_TXN: self.add,
            ApiKey.TXN_OFFSET_COMMIT: self.commit_offsets,
            ApiKey.END_TXN: self.end,
        }

    def init(self, request: InitProducerIdRequest, version: int) -> Any:
        self.epoch += 1
        return InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)

    def produce(self, request: ProduceRequest, version: int) -> Any:
        return ProduceResponse(
            responses=tuple(
                TopicProduceResponse(
                    name=told.name,
                    topic_id=told.topic_id,
                    partition_responses=tuple(
                        PartitionProduceResponse(
                            index=part.index, base_offset=0, error_code=self.refusal(part.index)
                        )
                        for part in told.partition_data
                    ),
                )
                for told in request.topic_data
            )
        )

    def refusal(self, partition: int) -> ErrorCode:
        left = self.refusals.get(partition)
        return left.pop(0) if left else ErrorCode.NONE

    def add(self, request: AddPartitionsToTxnRequest, version: int) -> Any:
        added = tuple(
            AddPartitionsToTxnTopicResult(
                name=told.name,
                results_by_partition=tuple(
                    AddPartitionsToTxnPartitionResult(partition_index=n, partition_error_code=0)
                    for n in told.partitions
                ),
            )
            for told in request.v3_and_below_topics
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=added)

    def commit_offsets(self, request: TxnOffsetCommitRequest, version: int) -> Any:
        done = tuple(
            TxnOffsetCommitResponseTopic(
                name=told.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(partition_index=part.partition_index)
                    for part in told.partitions
                ),
            )
            for told in request.topics
        )
        return TxnOffsetCommitResponse(topics=done)

    def end(self, request: EndTxnRequest, version: int) -> Any:
        self.epoch += 1
        return EndTxnResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)

    def knows(self, *others: ScriptedBroker) -> None:
        """Tell of more brokers."""

        def metadata(request: MetadataRequest, version: int) -> MetadataResponse:
            return MetadataResponse(
                brokers=tuple(
                    MetadataResponseBroker(node_id=b.node_id, host=b.host, port=b.port)
                    for b in (self, *others)
                ),
                cluster_id="the-cluster",
                controller_id=self.node_id,
                topics=self.topics if request.topics else (),
            )

        self.handlers[ApiKey.METADATA] = metadata


class SimulatedProducer(AsyncProducer[Any, Any]):
    """A producer in the loop of the simulation."""

    def __init__(self, ports: Ports, **options: Any) -> None:
        self.world_ports = ports
        super().__init__(f"{BROKER}:{PORT}", **options)

    def _made(self, config: ProducerConfig) -> Core:
        return Core(config, ports=self.world_ports, host=self._host)

    def _host(self, engine: Engine) -> Host:
        self.host = InterruptingLoop(engine)
        return self.host


class InterruptingLoop(SameLoop):
    """Where a cancellation may come just behind the work: done, and its caller does not know."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.interrupted = ""
        """The name of what is canceled when it is over, once."""

    async def await_there(self, work: Work[T]) -> T:
        result = await super().await_there(work)
        if getattr(work, "__name__", None) == self.interrupted:
            self.interrupted = ""
            raise asyncio.CancelledError
        return result


class FakeConsumer:
    """Where a batch came from."""

    def __init__(self) -> None:
        self.group_metadata = GroupMetadata("readers")
        self.rewound: list[Batch[Any, Any]] = []

    def rewind(self, batch: Batch[Any, Any]) -> None:
        self.rewound.append(batch)


def consumed() -> tuple[FakeConsumer, Batch[Any, Any]]:
    """A batch of the input, up to offset 5."""
    consumer = FakeConsumer()
    return consumer, Batch(spans={TopicPartition("in", 0): Span(0, 5)}, source=consumer)


def play(
    story: Callable[[SimulatedProducer], Any], *brokers: ScriptedBroker, **options: Any
) -> Any:
    """Run a story with a producer; nobody minds how it is closed."""

    async def client(ports: Ports) -> Any:
        producer = SimulatedProducer(ports, **options)
        try:
            return await story(producer)
        finally:
            with suppress(DeliveryErrors):
                await producer.aclose(0)

    with Worlds() as world:
        world.serve(*brokers)
        return world.play(client)
