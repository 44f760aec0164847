"""Small clusters for tests: a controller on a store in memory, driven without an event loop."""

import random
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from ottla.broker.config import BrokerConfig
from ottla.cluster.controller import Controller
from ottla.cluster.image import BrokerImage
from ottla.cluster.store.interface import MetadataStore
from ottla.cluster.store.memory import MemoryStore

T = TypeVar("T")


class SeededEntropy:
    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def random(self) -> float:
        return self._random.random()


def done(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing, as those of local stores do."""
    try:
        coroutine.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    raise AssertionError("the coroutine waits for something")


def broker(node_id: int = 1, rack: str | None = None) -> BrokerImage:
    return BrokerImage(node_id=node_id, host="localhost", port=9092, rack=rack)


def opened(
    store: MetadataStore | None = None,
    settings: Mapping[str, object] | None = None,
    *,
    broker_count: int = 1,
    seed: int = 1,
) -> Controller:
    """The controller of node 1, or of `node.id`, with as many brokers registered."""
    config = BrokerConfig.of(settings or {})
    controller = done(
        Controller.open(
            store or MemoryStore(),
            node_id=config.node_id,
            config=config,
            entropy=SeededEntropy(seed),
        )
    )
    for node_id in range(config.node_id, config.node_id + broker_count):
        done(controller.register(broker(node_id)))
    return controller
