"""Blocking and asyncio faces on one engine, against a real broker."""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest

import ottla
from ottla.client.config import ClientConfig
from ottla.client.engine import Engine
from ottla.client.faces import Driver, SameLoop, next_client_id
from ottla.client.ports import real_ports
from ottla.client.targets import CONTROLLER, group
from ottla.errors import ClosedError, ConnectError, DeadlineError, MisuseError
from ottla.testing import TestBroker
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

PATIENCE_S = 60.0


def driver(servers: str, **options: Any) -> Driver:
    config = ClientConfig.of(servers, **options)
    return Driver(Engine(config, real_ports(), client_id=next_client_id("test")))


@pytest.fixture(name="address", scope="module")
def address_fixture() -> Iterator[str]:
    with ottla.Broker() as broker:
        yield broker.bootstrap_servers


async def create(engine: Engine, name: str) -> int:
    """What both faces below do: the logic is written once."""
    topic = CreatableTopic(
        name=name, num_partitions=3, replication_factor=-1, assignments=(), configs=()
    )
    answer = await engine.call(
        CreateTopicsRequest(topics=(topic,), timeout_ms=5000), CreateTopicsResponse, to=CONTROLLER
    )
    return answer.topics[0].error_code


class Topics:
    """A blocking face."""

    def __init__(self, servers: str) -> None:
        self._driver = driver(servers)

    def create(self, name: str) -> int:
        return self._driver.run_blocking(create(self._driver.engine, name))

    def __enter__(self) -> Self:
        self._driver.run_blocking(self._driver.engine.connect())
        return self

    def __exit__(self, *error: object) -> None:
        self._driver.close_blocking()


class AsyncTopics:
    """Its twin."""

    def __init__(self, servers: str) -> None:
        self._driver = driver(servers)

    async def create(self, name: str) -> int:
        return await self._driver.run_async(create(self._driver.engine, name))

    async def __aenter__(self) -> Self:
        await self._driver.run_async(self._driver.engine.connect())
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._driver.close_async()


def test_both_faces_are_thin(address: str) -> None:
    async def main() -> int:
        async with AsyncTopics(address) as topics:
            return await topics.create("twice")

    with Topics(address) as topics:
        assert topics.create("twice") == 0
    assert asyncio.run(main()) == 36


def test_nothing_happens_before_the_first_call(address: str) -> None:
    before = set(threading.enumerate())  # some of which may end meanwhile, left by other tests
    client = driver(address)
    assert set(threading.enumerate()) <= before
    client.close_blocking()
    assert set(threading.enumerate()) <= before


def test_the_thread_ends_with_the_client(address: str) -> None:
    before = set(threading.enumerate())
    client = driver(address)
    client.run_blocking(client.engine.connect())
    assert len(set(threading.enumerate()) - before) == 1
    client.close_blocking()
    client.close_blocking()
    assert set(threading.enumerate()) <= before
    with pytest.raises(ClosedError):
        client.run_blocking(client.engine.connect())


def test_several_clients_live_side_by_side_in_a_process(address: str) -> None:
    clients = [driver(address) for _ in range(4)]
    names = {client.engine.client_id for client in clients}
    for client in clients:
        assert client.run_blocking(client.engine.connect()).is_known
    for client in clients:
        client.close_blocking()
    assert len(names) == 4


def test_several_threads_may_call_one_client(address: str) -> None:
    client = driver(address)
    answers: list[int] = []

    def call() -> None:
        for _ in range(20):
            asked = client.engine.ask(ListGroupsRequest(), ListGroupsResponse)
            answers.append(client.run_blocking(asked).error_code)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.close_blocking()
    assert answers == [0] * 80


def test_a_call_that_takes_too_long_is_canceled() -> None:
    client = driver("127.0.0.1:1")
    canceled = threading.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            canceled.set()

    with pytest.raises(DeadlineError, match=r"not done within 0\.05 s"):
        client.run_blocking(wait_for_ever(), timeout_s=0.05)
    assert canceled.wait(PATIENCE_S)
    client.close_blocking()


def test_a_refused_connection_is_an_error_that_names_the_address() -> None:
    client = driver("127.0.0.1:1")
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1: Connection refused"):
        client.run_blocking(client.engine.ask(ListGroupsRequest(), ListGroupsResponse))
    client.close_blocking()


def test_canceling_the_callers_task_cancels_the_work() -> None:
    client = driver("127.0.0.1:1")
    canceled = threading.Event()

    async def main() -> None:
        callers_loop, begun = asyncio.get_running_loop(), asyncio.Event()

        async def wait_for_ever() -> None:
            try:
                callers_loop.call_soon_threadsafe(begun.set)
                await asyncio.get_running_loop().create_future()
            finally:
                canceled.set()

        task = asyncio.ensure_future(client.run_async(wait_for_ever()))
        await begun.wait()  # what has not begun cannot notice that it is canceled
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await client.close_async()

    asyncio.run(main())
    assert canceled.is_set()


def test_a_busy_caller_does_not_delay_the_engine(address: str) -> None:
    """The user's loop stands still, and answers arrive all the same."""
    client = driver(address)

    async def main() -> None:
        await client.run_async(client.engine.connect())
        done = threading.Event()

        async def ask() -> None:
            await client.engine.ask(ListGroupsRequest(), ListGroupsResponse)
            done.set()

        task = asyncio.ensure_future(client.run_async(ask()))
        await asyncio.sleep(0)
        assert done.wait(PATIENCE_S), "the engine waited for the caller's loop"
        await task
        await client.close_async()

    asyncio.run(main())


def test_a_callback_on_the_io_thread_may_not_wait_for_it(address: str) -> None:
    client = driver(address)

    async def callback() -> None:
        client.run_blocking(client.engine.connect())

    with pytest.raises(MisuseError, match="which would wait for itself"):
        client.run_blocking(callback())
    client.close_blocking()


def test_what_is_done_last_comes_before_the_end(address: str) -> None:
    client = driver(address)
    done: list[str] = []

    async def flush() -> None:
        await client.engine.ask(ListGroupsRequest(), ListGroupsResponse)
        done.append("flushed")

    client.close_blocking(last=flush(), timeout_s=PATIENCE_S)
    assert done == ["flushed"]
    client.close_blocking(last=flush())
    assert done == ["flushed"]


def test_what_cannot_be_done_in_time_is_told_and_the_client_is_closed_all_the_same() -> None:
    client = driver("127.0.0.1:1")
    with pytest.raises(DeadlineError, match="not closed in peace"):
        client.close_blocking(last=wait_for_broker(client.engine), timeout_s=0.05)
    assert client.engine.is_closed


async def wait_for_broker(engine: Engine) -> None:
    await engine.connect()


def test_on_a_loop_of_its_own_an_engine_needs_no_thread(address: str) -> None:
    async def main() -> None:
        engine = Engine(ClientConfig.of(address), real_ports())
        client = Driver(engine, SameLoop(engine))
        before = set(threading.enumerate())
        assert (await client.run_async(engine.connect())).is_known
        assert set(threading.enumerate()) <= before
        with pytest.raises(MisuseError, match="would stop the loop"):
            client.run_blocking(engine.connect())
        await client.close_async()

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_told_to_make_its_own_client(address: str) -> None:
    script = """
        import os, sys
        from ottla.errors import MisuseError
        from tests.client.test_faces import driver
        client = driver(sys.argv[1])
        client.run_blocking(client.engine.connect())
        if (child := os.fork()) == 0:
            try:
                client.run_blocking(client.engine.connect())
            except MisuseError as error:
                client.close_blocking()
                client = driver(sys.argv[1])
                client.run_blocking(client.engine.connect())
                client.close_blocking()
                os._exit(7 if "make a new client" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        client.run_blocking(client.engine.refresh())
        client.close_blocking()
        print("both are well")
    """
    assert run_script(script, address) == "both are well\n"


def test_ctrl_c_ends_a_call_at_once() -> None:
    script = """
        import asyncio, os, signal, threading
        from tests.client.test_faces import driver
        client = driver("127.0.0.1:1")
        ended = threading.Event()
        async def wait_for_ever():
            threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.set()
        try:
            client.run_blocking(wait_for_ever())
        except KeyboardInterrupt:
            assert ended.wait(60)
            client.close_blocking()
            print("interrupted")
    """
    assert run_script(script) == "interrupted\n"


def run_script(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def outlive(act: Callable[[TestBroker], object]) -> None:
    """A client goes on working, whatever `act` does to the broker in between."""
    with TestBroker() as broker:
        client = driver(broker.bootstrap_servers, request_timeout_ms=1000)
        ask = ListGroupsRequest()
        client.run_blocking(client.engine.call(ask, ListGroupsResponse, to=group("g")))
        act(broker)
        client.run_blocking(client.engine.call(ask, ListGroupsResponse, to=group("g")))
        client.close_blocking()


def test_a_restarted_broker_is_found_again() -> None:
    outlive(lambda broker: broker.restart())


def test_a_crashed_broker_is_found_again() -> None:
    def crash(broker: TestBroker) -> None:
        broker.crash()
        broker.restart()

    outlive(crash)


def test_a_lost_reply_costs_a_repetition() -> None:
    outlive(lambda broker: broker.faults.drop_reply("ListGroups"))


def test_a_stalled_broker_costs_a_request_timeout() -> None:
    outlive(lambda broker: broker.faults.stall("ListGroups", times=1))
