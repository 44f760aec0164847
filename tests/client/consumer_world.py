"""Scripted brokers with records in several partitions, and consumers in their simulation."""

from collections.abc import Callable
from typing import Any

from ottla.client.consumer.asynchronous import AsyncConsumer
from ottla.model import TopicPartition
from ottla.ports import Ports
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from ottla.wire.registry import ApiKey
from tests.client.scripted import BROKER, CLIENT, PORT, ScriptedBroker, Worlds, topic
from tests.consumer_samples import plain_batch

TOPIC = "orders"
NOWHERE = "nowhere"


def tp(partition: int) -> TopicPartition:
    return TopicPartition(TOPIC, partition)


class Library(ScriptedBroker):
    """Leads partitions with as many records as `ends` says; `leaders` may name others."""

    def __init__(self, *leaders: int, others: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.topics = (topic(TOPIC, *leaders),)
        self.ends = dict.fromkeys(range(len(leaders)), 3)
        self.others = others
        self.fetched: list[TopicPartition] = []
        self.handlers |= {
            ApiKey.METADATA: self.metadata,
            ApiKey.LIST_OFFSETS: self.list_offsets,
            ApiKey.FETCH: self.fetch,
        }

    def metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        """Tell of `others`, too: nobody is there."""
        here = MetadataResponseBroker(node_id=self.node_id, host=self.host, port=self.port)
        gone = [MetadataResponseBroker(node_id=n, host=NOWHERE, port=PORT) for n in self.others]
        return MetadataResponse(
            brokers=(here, *gone),
            cluster_id="the-cluster",
            controller_id=self.node_id,
            topics=self.topics if request.topics is None or request.topics else (),
        )

    def list_offsets(self, request: ListOffsetsRequest, version: int) -> Any:
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=told.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(partition_index=p.partition_index, offset=0)
                        for p in told.partitions
                    ),
                )
                for told in request.topics
            )
        )

    def fetch(self, request: FetchRequest, version: int) -> Any:
        """Without a session: every request says everything."""
        return FetchResponse(
            responses=tuple(
                FetchableTopicResponse(
                    topic_id=told.topic_id,
                    partitions=tuple(
                        self._data(p.partition, p.fetch_offset) for p in told.partitions
                    ),
                )
                for told in request.topics
            )
        )

    def _data(self, partition: int, offset: int) -> PartitionData:
        self.fetched.append(tp(partition))
        end = self.ends[partition]
        records = bytes(plain_batch(offset, end - offset).data) if offset < end else None
        return PartitionData(
            partition_index=partition,
            high_watermark=end,
            last_stable_offset=end,
            aborted_transactions=None,
            records=records,
        )


class SimulatedConsumer(AsyncConsumer[Any, Any]):
    """A consumer in the loop of the simulation."""

    def __init__(self, ports: Ports, **options: Any) -> None:
        self._ports = ports
        super().__init__(bootstrap_servers=f"{BROKER}:{PORT}", **options)


def play(
    story: Callable[[SimulatedConsumer], Any],
    *brokers: ScriptedBroker,
    is_nowhere_silent: bool = False,
    **options: Any,
) -> Any:
    """Run a story with a consumer; who calls nobody is refused, or hears nothing at all."""

    async def client(ports: Ports) -> Any:
        async with SimulatedConsumer(ports, **options) as consumer:
            return await story(consumer)

    with Worlds() as world:
        world.serve(*brokers)
        if is_nowhere_silent:
            world.sim.network.cut([CLIENT], [NOWHERE])
        return world.play(client)
