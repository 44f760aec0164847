"""The control socket: who may ask, what is answered, and that no copy outlives its connection."""

import asyncio
import json
import logging
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.broker.control import (
    MAX_CONNECTIONS,
    MAX_HELD_S,
    MAX_QUESTION_BYTES,
    ControlSocket,
)
from ottla.broker.freezing import Freezer, Frozen
from ottla.errors import StorageError
from ottla.runtime.control import CONTROL_SOCKET, connect

PATIENCE_S = 60


class Copies:
    """Makes copies of nothing, and knows whether there is one."""

    def __init__(self) -> None:
        self.count = 0
        self.thawed = asyncio.Event()
        self.on_thaw: Callable[[], None] = lambda: None
        self.refusal: StorageError | None = None

    async def freeze(self) -> Frozen:
        if self.refusal is not None:
            raise self.refusal
        self.count += 1
        return Frozen(".frozen", {"orders-0/0.log": 7})

    async def thaw(self) -> None:
        self.count -= 1
        self.on_thaw()
        self.thawed.set()

    def abandon(self) -> None: ...


class Scene:
    """A socket in a folder, and those who come to it."""

    def __init__(self, folder: Path, max_held_s: float = MAX_HELD_S) -> None:
        self.folder = folder
        self.copies = Copies()
        self.socket = ControlSocket(str(folder), max_held_s=max_held_s)
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(
            sock=connect(str(self.folder), timeout_s=PATIENCE_S)
        )
        self.writers.append(writer)
        return reader, writer

    async def ask(self, question: bytes) -> Any:
        """The answer to a question on a connection of its own; None if it is hung up."""
        reader, writer = await self.connect()
        writer.write(question)
        try:
            line = await asyncio.wait_for(reader.readline(), PATIENCE_S)
        except ConnectionResetError:  # before it had read what we said
            return None
        return json.loads(line) if line else None


def play(
    folder: Path, scenario: Callable[[Scene], Awaitable[None]], *, max_held_s: float = MAX_HELD_S
) -> None:
    async def run() -> None:
        scene = Scene(folder, max_held_s)
        await scene.socket.open(lambda: cast(Freezer, scene.copies))
        try:
            await scenario(scene)
        finally:
            for writer in scene.writers:
                writer.close()
            await scene.socket.close()

    asyncio.run(run())


def test_a_copy_is_gone_with_the_connection_that_asked_for_it(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        answer = await scene.ask(b"freeze\n")
        assert answer == {"folder": ".frozen", "ends": {"orders-0/0.log": 7}}
        assert scene.copies.count == 1
        scene.writers[0].transport.abort()
        await asyncio.wait_for(scene.copies.thawed.wait(), PATIENCE_S)
        assert scene.copies.count == 0

    play(tmp_path, scenario)


def test_a_broker_that_stops_lets_go_of_copies(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.ask(b"freeze\n")
        await scene.socket.close()
        assert scene.copies.count == 0
        assert not (tmp_path / CONTROL_SOCKET).exists()

    play(tmp_path, scenario)


def test_who_releases_a_copy_is_told_when_it_is_gone(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        reader, writer = await scene.connect()
        writer.write(b"freeze\n")
        await asyncio.wait_for(reader.readline(), PATIENCE_S)
        writer.write(b"release\n")
        assert json.loads(await asyncio.wait_for(reader.readline(), PATIENCE_S)) == {
            "released": True
        }
        assert scene.copies.count == 0

    play(tmp_path, scenario)


def test_a_copy_that_nobody_releases_is_let_go_of_and_its_owner_learns_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(scene: Scene) -> None:
        reader, writer = await scene.connect()
        writer.write(b"freeze\n")
        assert "ends" in json.loads(await asyncio.wait_for(reader.readline(), PATIENCE_S))
        await asyncio.wait_for(scene.copies.thawed.wait(), PATIENCE_S)
        writer.write(b"release\n")
        answer = json.loads(await asyncio.wait_for(reader.readline(), PATIENCE_S))
        assert answer == {"error": "it keeps a copy for 0 s and no longer"}
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
        assert scene.copies.count == 0

    with caplog.at_level(logging.WARNING, logger="ottla"):
        play(tmp_path, scenario, max_held_s=0)
    assert "copy let go of" in caplog.text


def test_who_has_lost_a_copy_and_says_nothing_is_hung_up_on(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        def be_brief() -> None:
            scene.socket.max_silence_s = 0

        scene.copies.on_thaw = be_brief
        reader, writer = await scene.connect()
        writer.write(b"freeze\n")
        said = await asyncio.wait_for(reader.read(), PATIENCE_S)
        assert [list(json.loads(line)) for line in said.splitlines()] == [
            ["folder", "ends"],
            ["error"],
        ]

    play(tmp_path, scenario, max_held_s=0)


def test_who_never_asks_is_hung_up_on(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        scene.socket.max_silence_s = 0
        reader, _ = await scene.connect()
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""

    play(tmp_path, scenario)


def test_why_there_is_no_copy_is_told(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        scene.copies.refusal = StorageError("another snapshot is being taken")
        assert await scene.ask(b"freeze\n") == {"error": "another snapshot is being taken"}

    play(tmp_path, scenario)


def test_a_question_that_is_none_is_answered_so(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        answer = await scene.ask(b"open sesame\n")
        assert answer == {"error": "it does not know b'open sesame\\n'"}
        assert scene.copies.count == 0

    play(tmp_path, scenario)


def test_a_question_without_end_is_not_listened_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(scene: Scene) -> None:
        assert await scene.ask(b"x" * 10 * MAX_QUESTION_BYTES) is None

    with caplog.at_level(logging.WARNING, logger="ottla"):
        play(tmp_path, scenario)
    assert "control connection ended" in caplog.text


def test_no_more_connections_are_listened_to_than_there_is_room_for(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        for _ in range(MAX_CONNECTIONS):
            await scene.connect()
        assert await scene.ask(b"freeze\n") is None
        assert scene.copies.count == 0

    play(tmp_path, scenario)


def test_who_comes_and_says_nothing_is_nothing_to_speak_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(scene: Scene) -> None:
        reader, writer = await scene.connect()
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""

    with caplog.at_level(logging.WARNING, logger="ottla"):
        play(tmp_path, scenario)
    assert caplog.text == ""


def test_nobody_but_its_owner_can_connect(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        mode = (tmp_path / CONTROL_SOCKET).stat().st_mode
        assert stat.S_IMODE(mode) == 0o600

    play(tmp_path, scenario)
