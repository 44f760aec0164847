"""What a log costs as it grows: its segments, a start after a kill, cold reads, compaction."""

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import ottla
from bench import growth
from bench.blast import (
    TOPIC,
    Load,
    WrongAnswerError,
    ask,
    batch_of,
    blast,
    check_end,
    connected,
    create_topic,
    fetch_request,
    framed,
    produce_request,
    trip,
)
from bench.confined import confined
from bench.processes import Served, broker, cached_bytes, data_dir
from bench.report import aligned
from bench.standing import first_answer
from ottla.records.batch import Batch
from ottla.records.builder import build
from ottla.wire.messages import list_offsets
from ottla.wire.registry import ApiKey
from tools.maven import UnavailableError

SEGMENT_COUNTS = (1, 10, 100, 1_000)
LOG_MEGABYTES = (1, 10, 100, 1_000)
COLD_MEGABYTES = 512
COMPACTED_MEGABYTES = 256
KEY_COUNT = 10_000
STILL_CACHED_SHARE = 0.05
"""As much of the log may be in memory when it counts as being on the disk."""
MEGABYTE = 1_000_000
DEPTH = 4
LOOKUP_COUNT = 100
ONE_BATCH_A_SEGMENT = {"segment.index.bytes": "8", "index.interval.bytes": "0"}
"""An index with room for one entry: the next batch begins the next segment."""
SETTLED_BYTES = 1_000
"""What a compacted log may change by and still be settled."""
PATIENCE_S = 60.0


def _write(server: Served, request: bytes, count: int, depth: int = DEPTH) -> float:
    """The same request, over and over; the seconds it took."""
    _, response_bytes = ask(server.port, request, ApiKey.PRODUCE, 9)
    load = Load(requests=[request], response_bytes=response_bytes, depth=depth)
    with connected(server.port) as connection:
        return blast(connection, load, count - 1) if count > 1 else 0.0


# Segments


def segments(counts: Sequence[int] = SEGMENT_COUNTS) -> list[str]:
    return growth.table("segments", [(count, _with_segments(count)) for count in counts])


def _with_segments(count: int) -> growth.Figures:
    """So many segments of one batch each; the last one is the one that is written to."""
    figures: growth.Figures = {}
    batch = batch_of(16_000)
    record_count = Batch.parse(batch).record_count
    with data_dir() as folder:
        with broker(folder, "os") as server:
            create_topic(server.port, 1, TOPIC, ONE_BATCH_A_SEGMENT)
            server.settle()
            before_ns = server.cpu_ns
            _write(server, produce_request(batch), count, depth=1)
            figures["CPU to write a batch, ms"] = (server.cpu_ns - before_ns) / 1e6 / count
            check_end(server.port, count * record_count)
        found = len(list(Path(folder).glob(f"**/{TOPIC}-0/*.log")))
        if not count <= found <= count + 1:
            raise AssertionError(f"{found} segments, not {count}")
        with broker(folder, "os", is_killed=True) as server:
            figures["start after a clean stop, s"] = first_answer(server)
            server.settle()
            figures["memory, MB"] = server.resident_bytes / 1e6
            offsets = [number * count // LOOKUP_COUNT for number in range(LOOKUP_COUNT)]
            requests = [fetch_request(at * record_count, len(batch)) for at in offsets]
            figures["CPU of a fetch anywhere, µs"] = _cpu_us(server, requests)
            figures["CPU of an offset by time, µs"] = _cpu_us(server, [_by_time()] * LOOKUP_COUNT)
        with broker(folder, "os") as server:
            figures["start after a kill, s"] = first_answer(server)
    return figures


def _cpu_us(server: Served, requests: list[bytes]) -> float:
    """Of one request, one after the other, when all were asked once before."""
    with connected(server.port) as connection:
        for request in requests:
            trip(connection, request)
        before_ns = server.cpu_ns
        for request in requests:
            trip(connection, request)
        return (server.cpu_ns - before_ns) / 1e3 / len(requests)


def _by_time() -> bytes:
    """Of the first record that is not older than now; there is none, so all segments are asked."""
    wanted = list_offsets.ListOffsetsPartition(
        partition_index=0, current_leader_epoch=-1, timestamp=int(time.time() * 1000)
    )
    topic = list_offsets.ListOffsetsTopic(name=TOPIC, partitions=(wanted,))
    return framed(list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,)), 5)


# Recovery


def recovery(sizes: Sequence[int] = LOG_MEGABYTES) -> list[str]:
    return growth.table("log, MB", [(size, _recovered(size)) for size in sizes])


def _recovered(megabytes: int) -> growth.Figures:
    """One partition that was never synced: a start after a kill has to look at all of it."""
    figures: growth.Figures = {}
    with data_dir() as folder:
        with broker(folder, "os", is_killed=True) as server:
            create_topic(server.port, 1)
            _write(server, produce_request(batch_of(MEGABYTE)), megabytes)
        with broker(folder, "os") as server:
            figures["start after a kill, s"] = first_answer(server)
            figures["CPU of it, s"] = server.cpu_ns / 1e9
            check_end(server.port, megabytes * Batch.parse(batch_of(MEGABYTE)).record_count)
        with broker(folder, "os") as server:
            figures["start after a clean stop, s"] = first_answer(server)
    return figures


# Cold reads


def cold_reads(megabytes: int = COLD_MEGABYTES) -> list[str]:
    """A log that is in the page cache, one that is not, and one that never will be.

    And who writes meanwhile.
    """
    rows: list[tuple[str, ...]] = [
        (
            f"reading {megabytes} MB, {DEPTH} MB under way",
            "MB/s",
            "broker's CPU, s/GB",
            "broker's memory, MB",
            "one record written meanwhile, p50, ms",
            "p99, ms",
        )
    ]
    with data_dir() as folder, broker(folder, "os") as server:
        create_topic(server.port, 1)
        create_topic(server.port, 1, "other")
        batch = batch_of(MEGABYTE)
        _write(server, produce_request(batch), megabytes)
        server.settle()
        rows.append(("nobody reads", "", "", "", *_beside(server, lambda: time.sleep(1))))
        read = partial(_read_all, server, batch, megabytes)
        forget = partial(_forget, Path(folder), megabytes)
        rows.append(_cold_row("in the page cache", read))
        rows.append(_cold_row("on the disk", read, forget))
        share_megabytes = megabytes // 4
        with ExitStack() as stack:

            def confine() -> None:
                limit_bytes = share_megabytes * MEGABYTE
                stack.enter_context(confined(server.process.pid, limit_bytes))
                forget()  # or others would have it in memory
                read()  # what comes first is forgotten then for what comes last

            title = f"on the disk, with memory for {share_megabytes} MB"
            rows.append(_cold_row(title, read, confine))
    return aligned(rows)


def _cold_row(
    title: str, read: Callable[[], tuple[str, ...]], prepare: Callable[[], None] = lambda: None
) -> tuple[str, ...]:
    try:
        prepare()
    except UnavailableError as error:
        return title, f"not run: {error}", "", "", "", ""
    return title, *read()


def _read_all(server: Served, batch: bytes, megabytes: int) -> tuple[str, ...]:
    record_count = Batch.parse(batch).record_count
    requests = [fetch_request(at * record_count, len(batch)) for at in range(megabytes)]
    _, response_bytes = ask(server.port, requests[0], ApiKey.FETCH, 12)
    load = Load(requests=requests, response_bytes=response_bytes, depth=DEPTH)
    walls_s: list[float] = []
    before_ns = server.cpu_ns
    with connected(server.port) as connection:
        waits = _beside(server, lambda: walls_s.append(blast(connection, load, megabytes)))
    cpu_s = (server.cpu_ns - before_ns) / 1e9
    return (
        f"{megabytes / walls_s[0]:,.0f}",
        f"{cpu_s / (megabytes * MEGABYTE / 1e9):.2f}",
        f"{server.resident_bytes / 1e6:.0f}",
        *waits,
    )


def _forget(folder: Path, megabytes: int) -> None:
    """Have the kernel drop what it has in memory of these files: as if they did not fit in it."""
    still_bytes = 0
    for path in sorted(folder.rglob("*.log")):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            still_bytes += cached_bytes(file.fileno())
    if still_bytes > STILL_CACHED_SHARE * megabytes * MEGABYTE:
        raise UnavailableError(f"{still_bytes / 1e6:.0f} MB stay in the page cache")


def _beside(server: Served, act: Callable[[], None]) -> tuple[str, str]:
    """What one record waits, one after the other, while something else goes on; p50 and p99."""
    waits_s: list[float] = []
    is_over = threading.Event()
    with _writing(server.port, waits_s, is_over):
        act()
    figures_ms = [wait_s * 1e3 for wait_s in waits_s]
    return (
        f"{statistics.median(figures_ms):.2f}",
        f"{statistics.quantiles(figures_ms, n=100)[-1]:.2f}",
    )


@contextmanager
def _writing(port: int, waits_s: list[float], is_over: threading.Event) -> Iterator[None]:
    """Somebody who writes one record after the other to another topic."""
    request = produce_request(batch_of(0), topic="other")

    def write() -> None:
        with connected(port) as connection:
            while not is_over.is_set():
                begin = time.perf_counter()
                trip(connection, request)
                waits_s.append(time.perf_counter() - begin)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


# Compaction


def compaction(megabytes: int = COMPACTED_MEGABYTES) -> list[str]:
    """The same records to a compacted topic, without the cleaner and with it."""
    rows: list[tuple[str, ...]] = [
        (
            f"{megabytes} MB of {KEY_COUNT:,} keys",
            "produce, MB/s",
            "one record written meanwhile, p50, ms",
            "p99, ms",
            "broker's CPU, s",
            "on disk in the end, MB",
        ),
        ("not compacted", *_compacted(megabytes, is_enabled=False)),
        ("compacted while they come", *_compacted(megabytes, is_enabled=True)),
    ]
    return aligned(rows)


def _compacted(megabytes: int, *, is_enabled: bool) -> tuple[str, ...]:
    settings = {
        "log.cleaner.enable": str(is_enabled).lower(),
        "log.cleaner.backoff.ms": "100",
        "log.flush.offset.checkpoint.interval.ms": "500",  # only what is synced is compacted
    }
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": str(16 * MEGABYTE),
        "min.cleanable.dirty.ratio": "0.1",
        "file.delete.delay.ms": "0",
    }
    with data_dir() as folder, broker(folder, "os", settings) as server:
        create_topic(server.port, 1, TOPIC, configs)
        create_topic(server.port, 1, "other")
        requests = [produce_request(batch) for batch in _keyed_batches()]
        _, response_bytes = ask(server.port, requests[0], ApiKey.PRODUCE, 9)
        server.settle()
        load = Load(requests=requests, response_bytes=response_bytes, depth=DEPTH)
        walls_s: list[float] = []
        before_ns = server.cpu_ns
        with connected(server.port) as connection:
            waits = _beside(server, lambda: walls_s.append(blast(connection, load, megabytes)))
        kept_bytes = _settled_bytes(Path(folder))
        cpu_s = (server.cpu_ns - before_ns) / 1e9
        check_end(server.port, (megabytes + 1) * KEY_COUNT // len(requests))
        _check_keys(server)
    return (
        f"{megabytes / walls_s[0]:,.0f}",
        *waits,
        f"{cpu_s:.2f}",
        f"{kept_bytes / 1e6:,.0f}",
    )


def _check_keys(server: Served) -> None:
    """Every key is there still, whatever was compacted."""
    place = ottla.TopicPartition(TOPIC, 0)
    keys: set[bytes | None] = set()
    with ottla.Consumer(bootstrap_servers=f"127.0.0.1:{server.port}") as consumer:
        consumer.assign({place: 0})
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            if not (batch := consumer.poll(PATIENCE_S)):
                raise WrongAnswerError(f"no record behind {consumer.position(place)} of {end}")
            keys.update(record.key for record in batch)
    if len(keys) != KEY_COUNT:
        raise WrongAnswerError(f"{len(keys)} keys of {KEY_COUNT} are left")


def _keyed_batches() -> Iterator[bytes]:
    """Batches of 1 MB, ten of which have all keys."""
    now_ms, value = int(time.time() * 1000), b"v" * 980
    for first in range(0, KEY_COUNT, 1_000):
        yield bytes(
            build([(now_ms, b"%08d" % key, value, ()) for key in range(first, first + 1_000)])
        )


def _settled_bytes(folder: Path) -> int:
    """What the topic's log takes on the disk, when that has not changed for two seconds."""

    def used_bytes() -> int:
        paths = folder.glob(f"**/{TOPIC}-0/*.log")
        return sum(path.stat().st_blocks * 512 for path in paths if path.exists())

    deadline_s, known_bytes = time.perf_counter() + PATIENCE_S, used_bytes()
    while time.perf_counter() < deadline_s:
        time.sleep(2)
        found_bytes = used_bytes()
        if abs(found_bytes - known_bytes) <= SETTLED_BYTES:
            return found_bytes
        known_bytes = found_bytes
    return known_bytes
