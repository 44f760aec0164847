"""The races over protocol messages, against kio, which is a codec and nothing else.

kio reads with native code and writes with Python.  It refuses buffers that can be written to, so
both sides read `bytes`.  Our encoder gives a list of buffers with the records by reference, which
is what a broker sends; here the list is joined, because kio gives one piece.
"""

from collections.abc import Callable
from io import BytesIO
from typing import Any

from bench.harness import Contestant, Race
from ottla.records.builder import build
from ottla.wire.codec import codec, encode
from ottla.wire.messages import fetch, metadata, produce

CODEC = "wire"

BATCH = bytes(build([(1_700_000_000_000, None, b"v" * 100, ())]))

PRODUCE_REQUEST = produce.ProduceRequest(
    acks=-1,
    timeout_ms=30_000,
    topic_data=(
        produce.TopicProduceData(
            name="orders",
            partition_data=(produce.PartitionProduceData(index=0, records=BATCH),),
        ),
    ),
)

FETCH_RESPONSE = fetch.FetchResponse(
    responses=(
        fetch.FetchableTopicResponse(
            topic="orders",
            partitions=(
                fetch.PartitionData(
                    partition_index=0,
                    high_watermark=12_345,
                    last_stable_offset=12_345,
                    log_start_offset=0,
                    aborted_transactions=None,
                    records=BATCH,
                ),
            ),
        ),
    ),
)

METADATA_RESPONSE = metadata.MetadataResponse(
    brokers=tuple(
        metadata.MetadataResponseBroker(node_id=node, host="localhost", port=9092 + node)
        for node in range(3)
    ),
    cluster_id="bench",
    controller_id=1,
    topics=tuple(
        metadata.MetadataResponseTopic(
            name=f"topic-{topic}",
            partitions=tuple(
                metadata.MetadataResponsePartition(
                    partition_index=index,
                    leader_id=index % 3,
                    leader_epoch=5,
                    replica_nodes=(0, 1, 2),
                    isr_nodes=(0, 1, 2),
                )
                for index in range(10)
            ),
        )
        for topic in range(100)
    ),
)


def written_by_kio(writer: Callable[[BytesIO, Any], None], entity: Any) -> bytes:
    out = BytesIO()
    writer(out, entity)
    return out.getvalue()


def readers(message: Any, version: int, entity_type: Any) -> tuple[Contestant, Contestant]:
    """Reading is compared by writing again: what was read must give the bytes it came from."""
    from kio.serial import entity_reader, entity_writer

    data = encode(message, version)
    ours, theirs = codec(type(message), version), entity_reader(entity_type)
    writer = entity_writer(entity_type)
    return (
        Contestant(
            name="ottla",
            run=lambda: ours.decode(data),
            answer=lambda result: encode(result[0], version),
        ),
        Contestant(
            name="kio",
            run=lambda: theirs(data, 0),
            answer=lambda result: written_by_kio(writer, result[0]),
        ),
    )


def writers(message: Any, version: int, entity_type: Any) -> tuple[Contestant, Contestant]:
    from kio.serial import entity_reader, entity_writer

    entity, _ = entity_reader(entity_type)(encode(message, version), 0)
    ours, theirs = codec(type(message), version), entity_writer(entity_type)
    return (
        Contestant(name="ottla", run=lambda: b"".join(ours.encode(message)), answer=bytes),
        Contestant(name="kio", run=lambda: written_by_kio(theirs, entity), answer=bytes),
    )


def produce_read() -> tuple[Contestant, Contestant]:
    from kio.schema.produce.v9.request import ProduceRequest

    return readers(PRODUCE_REQUEST, 9, ProduceRequest)


def fetch_write() -> tuple[Contestant, Contestant]:
    from kio.schema.fetch.v12.response import FetchResponse

    return writers(FETCH_RESPONSE, 12, FetchResponse)


def metadata_write() -> tuple[Contestant, Contestant]:
    from kio.schema.metadata.v9.response import MetadataResponse

    return writers(METADATA_RESPONSE, 9, MetadataResponse)


RACES = [
    Race(
        title=title,
        twin="compiled",
        item="message",
        items_per_run=1,
        target_ratio=target_ratio,
        contestants=contestants,
    )
    for title, target_ratio, contestants in (
        ("read a Produce request v9, one record of 100 B", 1, produce_read),
        ("write a Fetch response v12, one record of 100 B", 20, fetch_write),
        ("write a Metadata response v9, 100 topics of 10 partitions", 50, metadata_write),
    )
]
