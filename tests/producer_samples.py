"""Producers' machines in the situations that tests begin with."""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ottla.client.cluster_view import ClusterView, Node, PartitionView, TopicView
from ottla.client.producer.batch import PendingBatch
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.lines import Accumulator, Line
from ottla.client.producer.pump import batch_options
from ottla.client.producer.sender import Sender, Settled, Shipment
from ottla.errors import ErrorCode, TransportError
from ottla.model import TopicPartition
from ottla.wire.messages.produce import PartitionProduceResponse

TOPIC = "orders"
MIDDLE = 0.5
"""Of luck."""
PRODUCER_ID = 77
LOST = TransportError("the broker closed the connection")


def cluster_of(*leaders: int | None) -> ClusterView:
    """A topic whose partitions have these leaders."""
    partitions = tuple(PartitionView(n, leader, 0, (1,), (1,)) for n, leader in enumerate(leaders))
    view = TopicView(
        name=TOPIC,
        partitions=partitions,
        available=tuple(p.partition for p in partitions if p.leader_id is not None),
    )
    nodes = {n: Node(n, "host", 9092) for n in {leader for leader in leaders if leader is not None}}
    return ClusterView(
        version=1, nodes=MappingProxyType(nodes), topics=MappingProxyType({TOPIC: view})
    )


def accumulator(*, batch_bytes: int = 1000, buffer_bytes: int = 100_000) -> Accumulator:
    return Accumulator(
        batch_bytes=batch_bytes,
        buffer_bytes=buffer_bytes,
        max_record_bytes=10_000,
        hasten=lambda batch: None,
    )


def add(lines: Accumulator, line: Line, value: bytes, now_ms: float = 0) -> PendingBatch:
    """A record of 100 bytes, by its bound."""
    size_bytes = 36 + len(value)
    record = (0, None, value, ())
    if lines.append(line, record, size_bytes) is None:
        lines.begin(line, [record], size_bytes, now_ms)
    assert line.open is not None
    return line.open


@dataclass
class Desk:
    """A sender, and a broker that does what it is told."""

    config: ProducerConfig
    lines: Accumulator
    sender: Sender
    cluster: ClusterView
    ready: bool = True
    stamps: dict[PendingBatch, Any] = field(default_factory=dict)

    @property
    def line(self) -> Line:
        return self.lines.line(TopicPartition(TOPIC, 0))

    def send(self, *values: bytes, now_ms: float = 0, is_full: bool = True) -> list[PendingBatch]:
        """Put each value into a batch of its own."""
        batches = []
        for value in values:
            batches.append(self.lines.begin(self.line, [(0, None, value, ())], 64, now_ms))
            if is_full:
                self.line.open = None
        return batches

    def ship(self, now_ms: float = 0) -> list[Shipment]:
        shipments = self.sender.ship(now_ms, self.cluster, lambda node_id: self.ready)
        for shipment in shipments:
            for batch in shipment.batches:
                batch.made_ready(self.sender.stamp(batch), batch_options(self.config))
        return shipments

    def ship_all(self, now_ms: float = 0) -> list[PendingBatch]:
        """Everything that may leave, request by request."""
        left = []
        while shipments := self.ship(now_ms):
            left += [batch for shipment in shipments for batch in shipment.batches]
        return left

    def answer(
        self, batch: PendingBatch, code: ErrorCode = ErrorCode.NONE, now_ms: float = 0
    ) -> list[Settled]:
        word = PartitionProduceResponse(index=0, error_code=code, base_offset=10)
        return self.sender.answered(batch, word, now_ms, MIDDLE)

    def lose(self, batch: PendingBatch, now_ms: float = 0) -> list[Settled]:
        return self.sender.lost(batch, LOST, now_ms, MIDDLE)


def desk(
    *,
    leaders: tuple[int | None, ...] = (1,),
    is_known: bool = True,
    is_established: bool = True,
    **options: Any,
) -> Desk:
    """A sender with a producer id that brokers have heard of, where it needs one."""
    config = ProducerConfig.of("localhost:1", **{"linger_ms": 5, **options})
    lines = accumulator()
    sender = Sender(config, lines)
    if is_known and config.is_idempotent:
        sender.identified(PRODUCER_ID, 0)
    made = Desk(config, lines, sender, cluster_of(*leaders))
    if is_known and config.is_idempotent:
        made.line.number_anew(PRODUCER_ID, 0)
        made.line.is_established = is_established
    return made


def sequences(*batches: PendingBatch) -> list[tuple[int, int]]:
    """Epoch and number of each batch, as it was sent last."""
    found = []
    for batch in batches:
        assert batch.stamp is not None
        found.append((batch.stamp.producer_epoch, batch.stamp.sequence))
    return found
