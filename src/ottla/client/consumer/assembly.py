"""How a consumer is put together, for both faces: settings, engine, driver, and its two halves."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.client.consumer.callers import AsyncCaller, BlockingCaller, Caller
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.consumer.core import Core
from ottla.client.consumer.plugs import RebalanceListener
from ottla.client.consumer.progress import Offsets, Progress
from ottla.client.consumer.reading import Reading
from ottla.client.consumer.subscription import Subscription, subscription_of
from ottla.client.engine import Engine
from ottla.client.faces import Driver, SameLoop, next_client_id
from ottla.client.ports import ClientPorts, real_ports
from ottla.client.records import Serdes, Source
from ottla.client.serdes import BYTES, Functions
from ottla.errors import ConfigError
from ottla.model import TopicPartition

Deserializer = Callable[[bytes | None], Any]


class Wish(NamedTuple):
    """What the constructor was told to read and how; nothing is done about it yet."""

    subscription: Subscription | None
    listener: RebalanceListener | None
    serdes: Serdes


class Assembly(NamedTuple):
    """What a face holds."""

    driver: Driver
    reading: Reading
    wish: Wish


def wish_of(
    topics: tuple[str, ...],
    listener: RebalanceListener | None,
    serdes: tuple[Any, Any],
    deserializers: tuple[Deserializer | None, Deserializer | None],
) -> Wish:
    """Read the arguments of a constructor that are no settings."""
    chosen = [
        _serde(what, serde, function)
        for what, serde, function in zip(("key", "value"), serdes, deserializers, strict=True)
    ]
    subscription = subscription_of(topics, is_pattern=False) if topics else None
    return Wish(subscription, listener, Serdes(*chosen))


def assemble(
    config: ConsumerConfig,
    wish: Wish,
    source: Source,
    *,
    is_async: bool,
    ports: ClientPorts | None = None,
) -> Assembly:
    """Make the parts; no thread is started, and nothing is sent.

    With `ports`, the consumer lives in the loop of its caller: for simulations.
    """
    engine = Engine(
        config,
        ports or real_ports(),
        client_id=next_client_id("consumer"),
        creates_topics=config.allow_auto_create_topics,
    )
    driver = Driver(engine, None if ports is None else SameLoop(engine))
    caller: Caller = AsyncCaller(driver) if is_async else BlockingCaller(driver)
    made: list[Progress] = []

    def processed() -> Mapping[TopicPartition, Any]:
        found: Offsets = made[0].processed()
        return found

    core = Core(engine, config, caller, processed)
    made.append(Progress(core.shelf.positions))
    reading = Reading(core, caller, made[0], wish.serdes, source)
    reading.bind(
        wake=lambda: driver.call_soon(core.wake),
        refill=lambda: driver.call_soon(core.refill),
        check_home=driver.check_home,
    )
    if wish.listener is not None:
        reading.turns.listener = wish.listener
    return Assembly(driver, reading, wish)


def _serde(what: str, serde: Any, function: Deserializer | None) -> Any:
    if function is None:
        return BYTES if serde is None else serde
    if serde is not None:
        raise ConfigError(f"{what}_serde and {what}_deserializer say the same; give one of them")
    return Functions(loads=function)
