"""The supervisor: one crash stops the program, signals stop it in order, nothing outlives it."""

import asyncio
import inspect
import os
import signal

import pytest

from ottla.runtime.supervisor import Supervisor


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


def test_tasks_end_with_the_program() -> None:
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    async def main() -> None:
        async with Supervisor() as supervisor:
            supervisor.start("log", work("log"))
            supervisor.start("listener", work("listener"))
            await asyncio.sleep(0)
            supervisor.stop("enough")
            supervisor.stop("a second reason")
            await supervisor.stopping()
            assert supervisor.stop_reason == "enough"

    asyncio.run(main())
    assert ended == ["listener", "log"]


def test_a_task_that_is_stopped_before_it_began_leaves_nothing_that_python_complains_of() -> None:
    work = forever()

    async def main() -> None:
        async with Supervisor() as supervisor:
            supervisor.start("late", work)

    asyncio.run(main())
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


def test_a_task_may_end_in_peace() -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        async with Supervisor() as supervisor:
            supervisor.start("short", work())
            for _ in range(5):
                await asyncio.sleep(0)
            assert supervisor.stop_reason is None

    asyncio.run(main())


def test_a_crashed_task_is_logged_and_stops_the_program(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def crash() -> None:
        raise LookupError("no such segment")

    async def main() -> None:
        async with Supervisor() as supervisor:
            supervisor.start("steady", forever())
            supervisor.start("cleaner", crash())
            await supervisor.stopping()
            assert supervisor.stop_reason == "cleaner crashed"

    with pytest.raises(LookupError, match="no such segment"):
        asyncio.run(main())
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage() == "task crashed: cleaner"
    assert record.exc_info is not None


def test_an_error_in_the_program_itself_comes_first() -> None:
    async def crash() -> None:
        raise LookupError

    async def main() -> None:
        async with Supervisor() as supervisor:
            supervisor.start("cleaner", crash())
            await supervisor.stopping()
            raise ValueError("the program's own")

    with pytest.raises(ValueError, match="the program's own"):
        asyncio.run(main())


def test_a_task_that_crashes_while_it_is_stopped_is_not_overlooked() -> None:
    async def crash_at_the_end() -> None:
        try:
            await forever()
        finally:
            raise LookupError("could not flush")

    async def main() -> None:
        async with Supervisor() as supervisor:
            supervisor.start("flusher", crash_at_the_end())
            await asyncio.sleep(0)

    with pytest.raises(LookupError, match="could not flush"):
        asyncio.run(main())


def test_a_task_that_does_not_end_is_named_and_left(caplog: pytest.LogCaptureFixture) -> None:
    release: list[asyncio.Event] = []

    async def stubborn() -> None:
        release.append(asyncio.Event())
        while not release[0].is_set():
            try:
                await release[0].wait()
            except asyncio.CancelledError:
                continue

    async def main() -> None:
        async with Supervisor(stop_timeout_s=0.01) as supervisor:
            supervisor.start("stubborn", stubborn())
            await asyncio.sleep(0)
        release[0].set()

    asyncio.run(main())
    assert "task stubborn did not end within 0.01 s" in caplog.messages


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_program_in_good_order(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    async def main() -> None:
        async with Supervisor() as supervisor:
            supervisor.stop_on_signals()
            supervisor.start("steady", forever())
            os.kill(os.getpid(), number)
            await supervisor.stopping()
            assert supervisor.stop_reason == f"{number.name} received"

    asyncio.run(main())
    assert signal.getsignal(number) == before


def test_a_second_signal_does_what_it_always_does() -> None:
    async def main() -> None:
        async with Supervisor() as supervisor:
            supervisor.stop_on_signals()
            os.kill(os.getpid(), signal.SIGINT)
            await supervisor.stopping()
            os.kill(os.getpid(), signal.SIGINT)
            await forever()

    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(main())
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
