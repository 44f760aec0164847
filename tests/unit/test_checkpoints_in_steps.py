"""Checkpoints of many logs: what each has to write before, it writes in a turn of its own."""

import asyncio
import random

from ottla.broker.cleaning import Cleaning
from ottla.log import checkpoints, files
from ottla.testing.loop import SimLoop
from tests.broker_fixture import LittleBroker

TOPICS = ("orders", "payments", "users")


def with_first_records() -> LittleBroker:
    broker = LittleBroker()
    for name in TOPICS:
        broker.create(name)
        broker.append(name, b"first")
        broker.partition(name).log.sync()
    return broker


def settled(broker: LittleBroker) -> list[str]:
    """The topics whose epochs are on disk."""
    return [name for name in TOPICS if checkpoints.read_epochs(broker.disk, f"{name}-0")]


def test_others_have_their_turn_between_two_logs() -> None:
    broker = with_first_records()
    loop = SimLoop(random.Random(1))

    async def scenario() -> list[list[str]]:
        checkpoint = asyncio.ensure_future(Cleaning(broker.node, broker.storage).checkpoint())
        seen: list[list[str]] = []
        while not checkpoint.done():
            if (now := settled(broker)) not in seen:
                seen.append(now)
            await asyncio.sleep(0.001)
        await checkpoint
        return seen

    seen = loop.run_until_complete(scenario())
    loop.close()

    assert seen == [list(TOPICS[:count]) for count in range(len(TOPICS) + 1)]
    points = checkpoints.read_offsets(broker.disk, files.RECOVERY_POINTS)
    assert points == {(name, 0): 1 for name in TOPICS}


def test_a_topic_may_be_deleted_meanwhile() -> None:
    broker = with_first_records()
    loop = SimLoop(random.Random(1))

    async def scenario() -> None:
        checkpoint = asyncio.ensure_future(Cleaning(broker.node, broker.storage).checkpoint())
        await asyncio.sleep(0.001)
        assert settled(broker) == ["orders"], "it pauses"
        await broker.controller.delete_topics(["payments"])
        await checkpoint

    loop.run_until_complete(scenario())
    loop.close()

    points = checkpoints.read_offsets(broker.disk, files.RECOVERY_POINTS)
    assert points == {("orders", 0): 1, ("users", 0): 1}
