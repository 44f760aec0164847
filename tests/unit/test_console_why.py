"""What pages find out: once for all who look, and nothing waits for something else."""

import asyncio
import threading

from ottla.console.why import OncePerSample
from ottla.why.findings import Finding

PATIENCE_S = 60.0


def finding(name: str) -> list[Finding]:
    return [Finding(code="found", text=name)]


def test_a_look_that_takes_long_holds_up_nobody_who_looks_at_something_else() -> None:
    may_end = threading.Event()

    def slow(name: str) -> list[Finding]:
        assert may_end.wait(PATIENCE_S)
        return finding(name)

    async def story() -> None:
        once = OncePerSample(lambda: 1)
        waiting = asyncio.create_task(once.find("group", "slow", slow))
        try:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.sleep(0)  # it is looked at
                assert await once.find("group", "quick", finding) == finding("quick")
                assert await once.find("topic", "slow", finding) == finding("slow")
            assert not waiting.done()
        finally:
            may_end.set()
        assert await waiting == finding("slow")

    asyncio.run(story())


def test_two_who_look_at_the_same_thing_have_it_looked_at_once_for_each_sample() -> None:
    seen: list[str] = []
    samples = [1]

    def counted(name: str) -> list[Finding]:
        seen.append(name)
        return finding(name)

    async def story() -> None:
        once = OncePerSample(lambda: samples[-1])
        both = [once.find("group", "one", counted) for _ in range(2)]
        assert await asyncio.gather(*both) == [finding("one")] * 2
        assert seen == ["one"]
        samples.append(2)
        assert await once.find("group", "one", counted) == finding("one")
        assert seen == ["one"] * 2

    asyncio.run(story())
