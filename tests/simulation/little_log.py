"""A log of one partition in a hundred lines, to prove the simulator on: server, clients, faults.

It speaks lines: `send ada-7` is answered by an offset, `poll 3` by the values from there on.
Several sabotages can be asked for; a simulator that is any good finds each of them.
"""

import asyncio
import enum
import random

from ottla.ports import File, Ports
from ottla.testing.history import Operation, Outcome, Polled, Sent
from ottla.testing.simulation import Simulation

PARTITION = "p"
PORT = 9092
CLIENTS = ("ada", "bob", "eve")
REQUEST_TIMEOUT_S = 0.5
SERVER = "server"
SYNC_DELAY_MS = (1.0, 30.0)  # a slow disk: there is always something that is not yet durable


class Sabotage(enum.Enum):
    NONE = "none"
    ACK_BEFORE_SYNC = "ack before sync"
    NEVER_SYNC_THE_FOLDER = "never sync the folder"
    SHOW_BEFORE_SYNC = "show before sync"
    KEEP_TORN_TAILS = "keep torn tails"


class Server:
    """One process of the server, from recovery to its end."""

    def __init__(self, ports: Ports, sabotage: Sabotage) -> None:
        self._ports = ports
        self._sabotage = sabotage
        self._file = self._open()
        self._values, self._end = self._recover()
        self._durable_count = len(self._values)

    async def serve(self) -> None:
        await self._ports.network.listen("0.0.0.0", PORT, self._accept)
        await asyncio.get_running_loop().create_future()

    def _open(self) -> File:
        disk = self._ports.disk
        disk.lock()
        file = disk.open("log", create=True)
        if self._sabotage is not Sabotage.NEVER_SYNC_THE_FOLDER:
            disk.sync_folder("")
        return file

    def _recover(self) -> tuple[list[str], int]:
        """Keep whole lines up to the first bad one, and cut off the rest."""
        values: list[str] = []
        end = 0
        for line in self._file.read(0, self._file.size_bytes()).splitlines(keepends=True):
            is_bad = b"\0" in line or not line.endswith(b"\n")
            if is_bad and self._sabotage is not Sabotage.KEEP_TORN_TAILS:
                break
            values.append(line.decode().strip())
            end += len(line)
        self._file.truncate(end)
        self._file.sync()
        return values, end

    def _accept(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._talk)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async for line in reader:
                command, argument = line.decode().split()
                answer = await self._send(argument) if command == "send" else self._poll(argument)
                writer.write(f"{answer}\n".encode())
                await writer.drain()
        except OSError:
            pass  # the client went away
        finally:
            writer.close()

    async def _send(self, value: str) -> str:
        offset = len(self._values)
        line = f"{value}\n".encode()
        self._file.write(self._end, line)
        self._end += len(line)
        self._values.append(value)
        if self._sabotage is not Sabotage.ACK_BEFORE_SYNC:
            await self._ports.disk.sync_files([self._file])
        self._durable_count = max(self._durable_count, offset + 1)
        return str(offset)

    def _poll(self, argument: str) -> str:
        shown = self._durable_count
        if self._sabotage is Sabotage.SHOW_BEFORE_SYNC:
            shown = len(self._values)
        return " ".join(["values", *self._values[int(argument) : shown]])


class Client:
    """Sends and polls in turn, over one connection after the other."""

    def __init__(self, process: str, history: list[Operation]) -> None:
        self._process = process
        self._history = history
        self._next_offset = 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def work(self, rng: random.Random, rounds: int) -> None:
        for number in range(rounds):
            await asyncio.sleep(rng.uniform(0, 0.04))
            if rng.random() < 0.7:
                await self.send(f"{self._process}-{number}")
            else:
                await self.poll()
        self._hang_up()

    async def send(self, value: str) -> None:
        answer = await self._ask(f"send {value}")
        outcome = Outcome.UNKNOWN if answer is None else Outcome.OK
        sent = Sent(PARTITION, value, None if answer is None else int(answer))
        self._history.append(Operation(process=self._process, outcome=outcome, sends=(sent,)))

    async def poll(self) -> None:
        answer = await self._ask(f"poll {self._next_offset}")
        if answer is not None:
            polls = tuple(
                Polled(PARTITION, value, offset)
                for offset, value in enumerate(answer.split()[1:], self._next_offset)
            )
            self._next_offset += len(polls)
            self._history.append(Operation(process=self._process, polls=polls))

    async def drain(self) -> None:
        """Poll everything, however long the server needs to come back."""
        for _ in range(100):
            if (answer := await self._ask(f"poll {self._next_offset}")) == "values":
                self._hang_up()
                return
            if answer is not None:
                await self.poll()
        raise AssertionError("the server did not come back")

    async def _ask(self, request: str) -> str | None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                if self._streams is None:
                    self._streams = await asyncio.open_connection(SERVER, PORT)
                reader, writer = self._streams
                writer.write(f"{request}\n".encode())
                answer = await reader.readline()
        except (OSError, TimeoutError):
            answer = b""
        if not answer.endswith(b"\n"):
            self._hang_up()
            return None
        return answer.decode().strip()

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


def play(sim: Simulation, sabotage: Sabotage = Sabotage.NONE, faults: int = 8) -> list[Operation]:
    """Let clients work while things break; then heal everything and let fresh eyes look."""
    history: list[Operation] = []

    async def serve(ports: Ports) -> None:
        await Server(ports, sabotage).serve()

    def client(name: str) -> None:
        async def work(ports: Ports) -> None:
            await Client(name, history).work(sim.stream(name), rounds=80)

        sim.spawn(name, work)

    sim.node(SERVER).disk.sync_delay_ms = SYNC_DELAY_MS
    sim.spawn(SERVER, serve)
    for name in CLIENTS:
        client(name)
    for _ in range(faults):
        sim.run_for(sim.rng.uniform(20, 700))
        break_something(sim)
        if not sim.node(SERVER).is_running:
            sim.run_for(sim.rng.uniform(0, 100))
            sim.spawn(SERVER, serve)
    sim.network.heal()
    sim.run_for(60_000)

    async def drain(ports: Ports) -> None:
        await Client("final", history).drain()

    async def finish() -> None:
        await sim.spawn("final", drain)

    sim.run(finish())
    return history


class Fault(enum.Enum):
    POWER = "power"
    PROCESS = "process"
    CUT = "cut"
    CUT_ONE_WAY = "cut one way"
    RESET = "reset"
    NONE = "none"


def break_something(sim: Simulation) -> None:
    client = sim.rng.choice(CLIENTS)
    match sim.rng.choices(list(Fault), [6, 2, 1, 1, 2, 4])[0]:
        case Fault.POWER:
            sim.crash(SERVER)
        case Fault.PROCESS:
            sim.kill(SERVER)
        case Fault.CUT:
            sim.network.cut([SERVER], [client])
        case Fault.CUT_ONE_WAY:
            sim.network.cut([client], [SERVER], one_way=True)
        case Fault.RESET:
            sim.network.reset(SERVER, client)
        case Fault.NONE:
            sim.network.heal()
