"""What one request costs the broker, by its kind: alone, and with many under way.

Alone, most of it is the kernel's and the event loop's: to be woken, to read, to write.  With many
under way those share one wake-up, which is what a busy broker looks like.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.blast import (
    TOPIC,
    Load,
    WrongAnswerError,
    batch_of,
    blast,
    connected,
    create_topic,
    fetch_request,
    framed,
    produce_request,
    trip,
)
from bench.membership import Member, commit_request, gather
from bench.processes import Served, broker, data_dir
from bench.report import aligned
from ottla.wire.frame import SIZE
from ottla.wire.header import decode_response
from ottla.wire.messages import (
    api_versions,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_fetch,
)
from ottla.wire.registry import ApiKey, api

COUNT, LONE_COUNT, DEPTH = 3_000, 500, 64
GROUP = "group"


@dataclass(frozen=True, slots=True)
class Kind:
    """A request that can be sent over and over, and whose answers are equally long."""

    title: str
    request: bytes
    key: ApiKey
    version: int


def requests(count: int = COUNT, lone_count: int = LONE_COUNT) -> list[str]:
    """Of a broker with one topic and one group."""
    rows: list[tuple[str, ...]] = [
        ("request", f"CPU, {DEPTH} under way, µs", "CPU, one at a time, µs")
    ]
    with data_dir() as folder, broker(folder, "os") as server:
        create_topic(server.port, 1)
        member = Member.connect(server.port, GROUP, TOPIC)
        gather([member])
        server.settle()
        rows += [
            (
                kind.title,
                f"{_cpu_us(server, kind, count, DEPTH):.1f}",
                f"{_cpu_us(server, kind, lone_count, 1):.1f}",
            )
            for kind in _kinds(member)
        ]
        member.close()
    return aligned(rows)


def _kinds(member: Member) -> Iterator[Kind]:
    small, large = batch_of(0), batch_of(16_000)
    yield Kind("ApiVersions", framed(api_versions.ApiVersionsRequest(), 0), ApiKey.API_VERSIONS, 0)
    asked = metadata.MetadataRequestTopic(name=TOPIC)
    yield Kind(
        "Metadata of one topic",
        framed(metadata.MetadataRequest(topics=(asked,)), 9),
        ApiKey.METADATA,
        9,
    )
    yield Kind("Produce, one record of 100 B", produce_request(small), ApiKey.PRODUCE, 9)
    yield Kind("Produce, 16 KB", produce_request(large), ApiKey.PRODUCE, 9)
    yield Kind("Fetch, one record of 100 B", fetch_request(1, len(small)), ApiKey.FETCH, 12)
    yield Kind("ListOffsets, the end of a partition", _list_offsets(), ApiKey.LIST_OFFSETS, 5)
    found = find_coordinator.FindCoordinatorRequest(coordinator_keys=(GROUP,))
    yield Kind("FindCoordinator", framed(found, 4), ApiKey.FIND_COORDINATOR, 4)
    yield Kind("Heartbeat of a member", member.heartbeat(), ApiKey.HEARTBEAT, 4)
    yield Kind(
        "OffsetCommit, one partition",
        commit_request("outside", TOPIC, 1, 7),
        ApiKey.OFFSET_COMMIT,
        8,
    )
    wanted = offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0,))
    offsets = offset_fetch.OffsetFetchRequest(group_id=GROUP, topics=(wanted,))
    yield Kind("OffsetFetch, one partition", framed(offsets, 7), ApiKey.OFFSET_FETCH, 7)
    new_id = init_producer_id.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000
    )
    yield Kind("InitProducerId, idempotent", framed(new_id, 4), ApiKey.INIT_PRODUCER_ID, 4)


def _list_offsets() -> bytes:
    wanted = list_offsets.ListOffsetsPartition(
        partition_index=0, current_leader_epoch=-1, timestamp=-1
    )
    topic = list_offsets.ListOffsetsTopic(name=TOPIC, partitions=(wanted,))
    return framed(list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,)), 5)


def _cpu_us(server: Served, kind: Kind, count: int, depth: int) -> float:
    """Of the broker, for each request; one round before warms up."""
    with connected(server.port) as connection:
        frame = trip(connection, kind.request)
        _, answer = decode_response(api(kind.key), kind.version, frame)
        check_no_error(answer)
        response_bytes = SIZE.size + len(frame)
        load = Load(requests=[kind.request], response_bytes=response_bytes, depth=depth)
        blast(connection, load, count // 4)
        before_ns = server.cpu_ns
        blast(connection, load, count)
        return (server.cpu_ns - before_ns) / 1e3 / count


def check_no_error(answer: Any) -> None:
    """An error is quickly answered: a figure of it would be a lie."""
    if error := getattr(answer, "error_code", 0):
        raise WrongAnswerError(f"error code {error}: {answer}")
    for name in type(answer).__slots__:
        inner = getattr(answer, name)
        for part in inner if isinstance(inner, tuple) else ():
            if hasattr(type(part), "__declared_fields__"):
                check_no_error(part)
