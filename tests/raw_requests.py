"""Single requests to a real broker, as they are: for what no client would send."""

from typing import Any

from ottla.client.config import ClientConfig
from ottla.client.engine import Engine
from ottla.client.faces import Driver
from ottla.client.ports import real_ports


def ask(
    bootstrap_servers: str,
    request: Any,
    answer: type[Any],
    *,
    topic: str | None = None,
    max_version: int | None = None,
) -> Any:
    """The answer of any broker, after `topic` exists, if one is named."""
    engine = Engine(ClientConfig.of(bootstrap_servers), real_ports(), creates_topics=True)

    async def work() -> Any:
        await engine.connect()
        if topic is not None:
            await engine.topic(topic)
        return await engine.ask(request, answer, max_version=max_version)

    driver = Driver(engine)
    try:
        return driver.run_blocking(work())
    finally:
        driver.close_blocking()
