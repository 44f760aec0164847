"""Records get into batches while other threads do, too: played by those who run in between."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.engine import Engine
from ottla.client.faces import SameLoop
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.core import Core
from ottla.client.producer.kernel import kernel
from ottla.client.producer.partitioners import murmur2
from ottla.client.producer.routes import Route, Routes
from tests.producer_samples import TOPIC, cluster_of

SIZE_BYTES = 64


class Asleep(SameLoop):
    """An I/O thread that never has its turn: what is put into a batch stays there."""

    def call_soon(self, act: Callable[[], object]) -> None:
        pass


class Interrupted:
    """A writer of which each call is one step, and after which another thread has its turn."""

    def __init__(self, writer: Any, between: Callable[[], object]) -> None:
        self._writer = writer
        self._between = between

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def __len__(self) -> int:
        return len(self._writer)

    def append(self, *record: Any) -> int:
        index: int = self._writer.append(*record)
        self._between()
        return index


def sleeping_core(**options: Any) -> Core:
    def asleep(engine: Engine) -> Asleep:
        return Asleep(engine)

    return Core(ProducerConfig.of("localhost:1", **options), host=asleep)


def laid(core: Core, partition_count: int) -> tuple[Routes, Route]:
    routes = Routes(core.config, core.lines, luck=lambda: 0.0, now_ms=lambda: 0.0)
    route = routes.route(TOPIC, cluster_of(*[1] * partition_count))
    assert route is not None
    return routes, route


def put(core: Core, route: Route, value: bytes) -> int:
    placed = core.intake.try_put(route, (0, None, value, ()), SIZE_BYTES, 0)
    assert placed is not None
    _, index = placed
    return index


def test_a_record_knows_its_place_although_another_comes_right_behind_it() -> None:
    core = sleeping_core()
    _, route = laid(core, 1)
    assert [put(core, route, b"first"), put(core, route, b"second")] == [0, 1]
    batch = core.lines.line(route.lines[0].tp).open
    assert batch is not None
    plain = batch.writer
    others: list[int] = []

    def another() -> None:
        others.append(plain.offer(0, None, b"of another thread"))

    batch.writer = Interrupted(plain, another)  # type: ignore[assignment]
    places = [put(core, route, b"mine") for _ in range(3)]

    assert (places, others) == ([2, 4, 6], [3, 5, 7])
    batch.writer = plain
    values = [value for _, _, value, _ in batch.records]
    assert [values[place] for place in places] == [b"mine"] * 3


@pytest.mark.parametrize(("before", "after"), [(2, 50), (50, 2)])
def test_a_topic_may_grow_or_be_made_anew_while_the_partition_of_a_key_is_looked_up(
    before: int, after: int
) -> None:
    core = sleeping_core()
    routes, route = laid(core, before)
    hashed = murmur2(b"key")
    assert hashed % 50 > 1, "in one of them there is no such partition"

    def laid_anew(key: bytes) -> int:
        routes.route(TOPIC, cluster_of(*[1] * after))
        return hashed

    route.key_hash = laid_anew
    assert route.cluster is not None
    core.engine.metadata.cluster = route.cluster
    core.door.open(kernel.Receipt)
    core.door.routes[TOPIC] = route
    sent = core.door.put(TOPIC, b"value", b"key", None, (), None, None)
    assert sent is None, "no batch is open there yet"
    assert len(route.lines) == after, "another thread had its turn"


@pytest.mark.parametrize(("before", "after"), [(2, 50), (50, 2)])
def test_a_topic_may_grow_or_be_made_anew_while_a_partitioner_thinks(
    before: int, after: int
) -> None:
    found: list[Routes] = []

    def last(topic: str, key: Any, value: Any, partitions: range) -> int:
        found[0].route(TOPIC, cluster_of(*[1] * after))
        return partitions[-1]

    routes, route = laid(sleeping_core(partitioner=last), before)
    found.append(routes)
    assert route.line_for(None, b"value", SIZE_BYTES).partition == before - 1


def test_who_is_interrupted_while_he_waits_for_room_keeps_nobody_in_a_hurry() -> None:
    core = sleeping_core(buffer_memory=200, batch_size=100, max_block_ms=1)
    _, route = laid(core, 1)
    put(core, route, b"first")
    core.pump._is_awake = False  # it had its turn

    def interrupted(act: Callable[[], object]) -> None:
        raise KeyboardInterrupt

    core.pump._call_soon = interrupted
    with pytest.raises(KeyboardInterrupt):
        core.intake.put(route, (0, None, b"second", ()), 100, 0)
    assert core.sender.hurry_count == 0
