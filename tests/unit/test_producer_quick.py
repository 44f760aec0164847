"""The quick way into a batch, by both twins: what it takes, what it leaves, and in which order."""

import importlib
import threading
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

from ottla.client.backoff import Backoff
from ottla.client.metadata import Metadata, MetadataPolicy
from ottla.client.producer import quick
from ottla.client.producer.batch import PendingBatch
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.delivery import DeliveryFuture
from ottla.client.producer.kernel import kernel
from ottla.client.producer.lines import Line
from ottla.client.producer.partitioners import crc32, murmur2
from ottla.client.producer.routes import Routes
from ottla.records.kernel import kernel as records
from tests.producer_samples import TOPIC, accumulator, add, cluster_of

NOW_MS = 1_700_000_000_000
COMPILED = "ottla.client.producer._quick"
IS_COMPILED = find_spec(COMPILED) is not None and records.__name__.endswith("._codec")
"""It writes with the compiled writer, and with no other."""
BOTH = [
    pytest.param(quick, id="python"),
    pytest.param(
        importlib.import_module(COMPILED) if IS_COMPILED else None,
        id="compiled",
        marks=pytest.mark.skipif(not IS_COMPILED, reason="the compiled twins do not run"),
    ),
]


class Clock:
    """One that stands still."""

    def now_ms(self) -> int:
        return NOW_MS


class World:
    """A door, and the lines of a topic behind it, each with a batch that has room."""

    def __init__(self, twin: ModuleType, partition_count: int = 1, **options: Any) -> None:
        self.config = ProducerConfig.of("localhost:1", **options)
        self.metadata = Metadata(MetadataPolicy(max_age_ms=1, backoff=Backoff(1, 1)))
        self.metadata.cluster = cluster_of(*[1] * partition_count)
        self.lines = accumulator(batch_bytes=5_000, buffer_bytes=100_000)
        routes = Routes(self.config, self.lines, luck=lambda: 0.0, now_ms=lambda: 0.0)
        route = routes.route(TOPIC, self.metadata.cluster)
        assert route is not None
        self.route = route
        self.twin = twin
        self.door = twin.Door(threading.Lock(), Clock(), self.metadata)
        self.door.open(twin.Receipt)
        self.door.routes[TOPIC] = route
        for line in route.lines:
            self.fill(line)

    @property
    def line(self) -> Line:
        return self.route.lines[0]

    def fill(self, line: Line) -> PendingBatch:
        """Begin a batch; a second record brings memory for more."""
        add(self.lines, line, b"first")
        return add(self.lines, line, b"second")

    def put(self, value: Any, key: Any = None, **unusual: Any) -> Any:
        said: dict[str, Any] = {
            "partition": None,
            "headers": (),
            "timestamp": None,
            "on_delivery": None,
            **unusual,
        }
        return self.door.put(TOPIC, value, key, *said.values())


@pytest.fixture(params=BOTH)
def twin(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def values_of(batch: PendingBatch) -> list[bytes | None]:
    return [bytes(value) for _, _, value, _ in batch.records if value is not None]


def test_plain_records_go_into_the_open_batch_one_after_the_other(twin: ModuleType) -> None:
    world = World(twin)
    batch = world.line.open
    assert batch is not None
    receipts = [world.put(b"a"), world.put(b"b"), world.put(b"")]
    assert [receipt.index for receipt in receipts] == [2, 3, 4]
    assert {receipt.delivery for receipt in receipts} == {batch.delivery}
    assert {receipt.timestamp_ms for receipt in receipts} == {NOW_MS}
    assert values_of(batch) == [b"first", b"second", b"a", b"b", b""]
    assert [record[0] for record in batch.records][2:] == [NOW_MS] * 3


def test_what_is_made_is_of_the_kind_that_was_asked_for(twin: ModuleType) -> None:
    class Marked(twin.Receipt):  # type: ignore[name-defined, misc]
        pass

    world = World(twin)
    world.door.open(Marked)
    assert type(world.put(b"a")) is Marked
    with pytest.raises(TypeError, match="int is not a Receipt"):
        world.door.open(int)


def test_the_futures_of_producers_are_receipts_of_the_twin_that_runs() -> None:
    batch = World(quick).line.open
    assert batch is not None
    future = DeliveryFuture(batch.delivery, 3, 5)
    assert isinstance(future, kernel.Receipt)
    assert (future.delivery, future.index, future.timestamp_ms) == (batch.delivery, 3, 5)


@pytest.mark.parametrize(
    "unusual",
    [
        {"partition": 0},
        {"headers": {"a": b"1"}},
        {"timestamp": 5},
        {"on_delivery": print},
    ],
    ids=lambda unusual: next(iter(unusual)),
)
def test_what_is_not_plain_is_left_to_the_longer_way(
    twin: ModuleType, unusual: dict[str, Any]
) -> None:
    world = World(twin)
    assert world.put(b"a", **unusual) is None
    assert world.put(b"a", headers={}) is not None, "no headers are no headers"


@pytest.mark.parametrize("value", ["text", None, bytearray(b"a"), 7])
def test_only_bytes_are_plain(twin: ModuleType, value: Any) -> None:
    world = World(twin)
    assert world.put(value) is None
    assert value is None or world.put(b"a", key=value) is None
    assert world.line.open is not None
    assert len(world.line.open.writer) == 2


def test_a_door_that_is_not_open_lets_nobody_in(twin: ModuleType) -> None:
    world = World(twin)
    door = twin.Door(threading.Lock(), Clock(), world.metadata)
    door.routes[TOPIC] = world.route
    assert door.put(TOPIC, b"a", None, None, (), None, None) is None


def test_a_door_that_was_shut_lets_nobody_in_whatever_it_did_before(twin: ModuleType) -> None:
    world = World(twin)
    assert world.put(b"a") is not None
    world.door.shut()
    assert world.door.routes == {}
    assert world.put(b"b") is None
    world.door.routes[TOPIC] = world.route
    assert world.put(b"c") is not None


def test_another_topic_is_another_way(twin: ModuleType) -> None:
    world = World(twin)
    assert world.put(b"a") is not None
    assert world.door.put("others", b"b", None, None, (), None, None) is None
    same = "".join(["or", "ders"])
    assert same is not TOPIC
    assert world.door.put(same, b"c", None, None, (), None, None).index == 3


def test_new_metadata_is_looked_at_before_the_next_batch(twin: ModuleType) -> None:
    world = World(twin)
    world.metadata.cluster = cluster_of(1, 1)
    assert world.put(b"a") is None


@pytest.mark.parametrize(
    ("partitioner", "key_hash"), [("murmur2", murmur2), ("consistent_random", crc32)]
)
def test_keys_decide_as_they_do_on_the_longer_way(
    twin: ModuleType, partitioner: str, key_hash: Any
) -> None:
    world = World(twin, 5, partitioner=partitioner)
    for number in range(40):
        key = b"table-%d" % number
        receipt = world.put(b"a", key)
        assert receipt.delivery.partition == key_hash(key) % 5
        assert receipt.delivery.partition == world.route.line_for(key, b"a", 1).partition
    assert world.put(b"a", b"") is None, "what an empty key means depends"


@pytest.mark.parametrize("options", [{"partitioner": "round_robin"}, {"partitioner": max}])
def test_where_others_decide_it_stands_aside(twin: ModuleType, options: dict[str, Any]) -> None:
    world = World(twin, 2, **options)
    assert world.put(b"a") is None
    assert world.put(b"a", b"key") is None


def test_a_batch_takes_no_more_than_its_memory(twin: ModuleType) -> None:
    world = World(twin)
    batch = world.line.open
    assert batch is not None
    taken = 0
    while world.put(b"x" * 50) is not None:
        taken += 1
    assert taken > 1
    assert batch.writer.size_bytes <= batch.size_bytes


def test_nothing_is_put_into_a_batch_that_has_left(twin: ModuleType) -> None:
    world = World(twin)
    assert world.put(b"a") is not None
    batch = world.lines.take(world.line)
    assert world.put(b"b") is None
    assert values_of(batch) == [b"first", b"second", b"a"]
    following = world.fill(world.line)
    assert world.put(b"c").delivery is following.delivery


@pytest.mark.parametrize("is_built", [False, True], ids=["of records", "of bytes"])
def test_nothing_is_put_before_a_batch_that_came_later(twin: ModuleType, is_built: bool) -> None:
    world = World(twin)
    before = world.line.open
    assert before is not None
    assert world.put(b"a") is not None
    if is_built:
        world.lines.append_built(world.line, bytearray(100), 1, 0)
    else:
        world.lines.begin(world.line, [(0, None, b"large", ())], 4_900, 0)
    overtaking = world.put(b"b")
    assert overtaking is None or overtaking.delivery is not before.delivery
    assert before.writer.offer(0, None, b"c") == -1
    assert len(before.writer) == 3


def test_records_without_a_key_follow_the_line_that_is_chosen_anew(twin: ModuleType) -> None:
    world = World(twin, 2)
    assert world.put(b"a").delivery.partition == 0
    assert world.route.sticky is not None
    world.route.sticky._luck = lambda: 0.99
    world.route.sticky.another()
    assert world.put(b"b").delivery.partition == 1


def test_what_was_withheld_from_a_line_is_there_for_its_keys(twin: ModuleType) -> None:
    world = World(twin, 2)
    key = next(key for key in map(bytes, zip(range(256))) if murmur2(key) % 2 == 0)
    assert world.route.sticky is not None
    world.route.sticky.another()
    assert world.put(b"a", key) is None
    add(world.lines, world.line, b"third")
    assert world.put(b"b", key).delivery.partition == 0
