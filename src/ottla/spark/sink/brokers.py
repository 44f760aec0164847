"""Performs the steps of the protocol: the shell around `protocol`, on an engine of our clients.

Engines, with their connections, are kept by the Python process, which Spark uses for one batch
after the other: for the sinks that it worked for last.  Nothing that counts is kept along with
them: a process that was replaced finds all it needs in the decisions.
"""

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar, assert_never

from ottla.client.admin import transactions
from ottla.client.admin.calling import Caller, together
from ottla.client.engine import Engine
from ottla.client.faces import Driver, next_client_id
from ottla.client.ports import real_ports
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.transactions import VERSION_2, VERSION_FEATURE
from ottla.client.targets import transaction as coordinator_of
from ottla.errors import (
    ErrorCode,
    FencedError,
    NotFoundError,
    UnknownTopicError,
    exception_for,
    raise_for_code,
)
from ottla.model import TopicPartition
from ottla.spark.sink import faults
from ottla.spark.sink.decisions import Decision, Identity, Names
from ottla.spark.sink.journal import JournalFile
from ottla.spark.sink.protocol import (
    Current,
    Decide,
    End,
    Fence,
    Journal,
    Open,
    Read,
    Settle,
    Step,
    Steps,
    SupersededError,
    Writers,
)
from ottla.spark.sink.transactional import add_offsets, add_partition
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

T = TypeVar("T")

DECISION_TIMEOUT_MS: Final = 60_000
"""How long a decision may be under way; then the broker drops it."""
_NOBODY: Final = -1
_VERSION_1_END: Final = 4
MAX_KEPT: Final = 64
"""For how many sinks a process keeps connections; more are kept only while they are at work."""
_drivers: Final[dict[tuple[Any, ...], Driver]] = {}
_kept: Final[dict[tuple[Names, Driver], Any]] = {}
"""The sinks that this process works for, the last one last."""


def kept_drivers() -> list[Driver]:
    """The engines that this process keeps."""
    return list(_drivers.values())


def close_kept() -> None:
    """Let go of the connections that are kept, in a process that lives on and writes no more."""
    _kept.clear()
    while _drivers:
        _drivers.popitem()[1].close_blocking()


class Brokers:
    """The brokers, as one sink sees them.  For one thread."""

    def __init__(self, driver: Driver, names: Names, *, is_owner: bool = False) -> None:
        self.names = names
        self._driver = driver
        self._engine = driver.engine
        self._journal = JournalFile(driver.engine, names.journal)
        self._is_owner = is_owner
        self.is_at_work = False

    @classmethod
    def of(cls, client: Mapping[str, object], names: Names) -> Self:
        """With connections of its own; to be closed."""
        return cls(_driver(client), names, is_owner=True)

    @classmethod
    def kept(cls, client: Mapping[str, object], names: Names) -> Self:
        """With the connections that this process keeps, and what it has read of the decisions."""
        key = (os.getpid(), *sorted(client.items()))
        driver = _drivers.get(key)
        if driver is None or driver.engine.is_closed:
            driver = _drivers[key] = _driver(client)
        known = _kept.pop((names, driver), None) or cls(driver, names)
        _kept[names, driver] = known
        if len(_kept) > MAX_KEPT:
            _let_go_of_oldest(known)
        return known

    def run(self, phase: str, steps: Steps[T]) -> T:
        """Perform steps until they are at their end; `phase` names them for ordered accidents."""
        self.is_at_work = True
        try:
            return self._run(phase, steps)
        finally:
            self.is_at_work = False

    def _run(self, phase: str, steps: Steps[T]) -> T:
        answer: Any = None
        trouble: SupersededError | None = None
        while True:
            try:
                step = steps.send(answer) if trouble is None else steps.throw(trouble)
            except StopIteration as done:
                result: T = done.value
                return result
            point = self._point(step)
            faults.at(f"{phase}.before.{point}", self.names.sink_id)
            answer, trouble = None, None
            try:
                answer = self._driver.run_blocking(self._perform(step, phase))
            except SupersededError as error:
                trouble = error
            faults.at(f"{phase}.after.{point}", self.names.sink_id)

    def _point(self, step: Step) -> str:
        """What a step is called where accidents are ordered."""
        is_round = isinstance(step, End) and any(
            who.transactional_id == self.names.coordinator for who in step.identities
        )
        return "EndRound" if is_round else type(step).__name__

    def current(self) -> Identity:
        """Who has the coordinator's id."""
        return self._driver.run_blocking(self._current())

    def ledger(self) -> list[Decision]:
        """All decisions that are left, oldest first."""
        return self._driver.run_blocking(self._ledger())

    def cluster_id(self) -> str | None:
        """Which cluster it is."""
        return self._driver.run_blocking(self._engine.connect()).cluster_id

    def close(self) -> None:
        """Close the connections, if they are ours."""
        if self._is_owner:
            self._driver.close_blocking()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # In the loop of the engine.

    async def _perform(self, step: Step, phase: str) -> Any:
        await self._engine.connect()
        match step:
            case Fence(only):
                return await self._fence(only)
            case Current():
                return await self._current()
            case Open():
                return await self._open()
            case Read(waits):
                return await self._read(waits=waits)
            case Writers(among):
                return await self._writers(among)
            case Decide(by, decision):
                try:
                    return await self._decide(by, decision)
                except FencedError as error:
                    raise SupersededError(
                        f"batch {decision.batch_id} was not written: another driver took over the "
                        f"sink {decision.sink_id!r} ({error}).  Two queries must not share a "
                        "checkpoint or a transactionalIdPrefix; this one stops"
                    ) from error
            case End(identities, commits):
                return await self._end_all(identities, phase, commits=commits)
            case Settle():
                return await self._journal.write_settled(step)
            case _:
                assert_never(step)

    async def _ledger(self) -> list[Decision]:
        await self._engine.connect()
        return await self._journal.everything()

    @property
    def _is_version_2(self) -> bool:
        return self._engine.features.get(VERSION_FEATURE, 0) >= VERSION_2

    async def _fence(self, only: Identity | None) -> Identity:
        target = coordinator_of(self.names.coordinator)
        answer = await self._engine.call(
            InitProducerIdRequest(
                transactional_id=self.names.coordinator,
                transaction_timeout_ms=DECISION_TIMEOUT_MS,
                producer_id=_NOBODY if only is None else only.producer_id,
                producer_epoch=_NOBODY if only is None else only.epoch,
            ),
            InitProducerIdResponse,
            to=target,
            min_version=None if only is None else 3,
        )
        if answer.error_code != ErrorCode.NONE:
            error = exception_for(answer.error_code, str(target))
            if only is not None and isinstance(error, FencedError):
                raise SupersededError(f"{only} is not the newest driver of its sink any more")
            raise error
        return Identity(self.names.coordinator, answer.producer_id, answer.producer_epoch)

    async def _current(self) -> Identity:
        await self._engine.connect()
        caller = Caller(self._engine)
        told = await transactions.describe_transaction(caller, self.names.coordinator)
        return Identity(self.names.coordinator, told.producer_id, told.producer_epoch)

    async def _open(self) -> tuple[Identity, ...]:
        caller = Caller(self._engine)
        listed = await transactions.list_transactions(caller, states=transactions.UNENDED)
        ids = [
            entry.transactional_id
            for entry in listed
            if self.names.is_participant(entry.transactional_id)
        ]
        found = await together(self._described(caller, name) for name in ids)
        return tuple(
            Identity(told.transactional_id, told.producer_id, told.producer_epoch)
            for told in found
            if told is not None and told.state in transactions.UNENDED
        )

    async def _writers(self, among: tuple[Identity, ...]) -> tuple[Identity, ...]:
        caller = Caller(self._engine)
        found = await together(self._described(caller, who.transactional_id) for who in among)
        return tuple(
            who
            for who, told in zip(among, found, strict=True)
            if told is not None and self.names.journal in told.partitions
        )

    async def _described(
        self, caller: Caller, transactional_id: str
    ) -> transactions.TransactionInfo | None:
        try:
            return await transactions.describe_transaction(caller, transactional_id)
        except NotFoundError:
            return None

    async def _read(self, *, waits: bool) -> Journal:
        try:
            return await self._journal.catch_up(waits=waits)
        except UnknownTopicError:
            await self._journal.create()
            return await self._journal.catch_up(waits=waits)

    async def _decide(self, by: Identity, decision: Decision) -> None:
        is_version_2 = self._is_version_2
        if not is_version_2:
            await add_partition(self._engine, by, self.names.journal)
        await self._journal.write_decision(by, decision, is_version_2=is_version_2)
        for group, offsets in decision.groups.items():
            await add_offsets(self._engine, by, group, _known(offsets), is_version_2=is_version_2)

    async def _end_all(
        self, identities: tuple[Identity, ...], phase: str, *, commits: bool
    ) -> tuple[Identity, ...]:
        if faults.are_armed():  # one after the other, so that something can happen among them
            ended = []
            for who in identities:
                ended.append(await self._end(who, commits=commits))
                faults.at(f"{phase}.among.End", self.names.sink_id)
        else:
            ended = await together(self._end(who, commits=commits) for who in identities)
        return tuple(who for who, is_done in zip(identities, ended, strict=True) if not is_done)

    async def _end(self, who: Identity, *, commits: bool) -> bool:
        """End one transaction; False if it went the other way."""
        target = coordinator_of(who.transactional_id)
        answer = await self._engine.call(
            EndTxnRequest(
                transactional_id=who.transactional_id,
                producer_id=who.producer_id,
                producer_epoch=who.epoch,
                committed=commits,
            ),
            EndTxnResponse,
            to=target,
            max_version=None if self._is_version_2 else _VERSION_1_END,
        )
        if answer.error_code != ErrorCode.NONE:
            error = exception_for(answer.error_code, str(target))
            if isinstance(error, FencedError | NotFoundError):
                return False
            raise_for_code(answer.error_code, str(target))
        return True


def _let_go_of_oldest(newest: Brokers) -> None:
    """Forget the sink that was used longest ago; its connections, too, if they are only its."""
    for sink, brokers in list(_kept.items()):
        if brokers is newest or brokers.is_at_work:
            continue
        del _kept[sink]
        driver = sink[1]
        if all(other is not driver for _, other in _kept):
            for key in [key for key, other in _drivers.items() if other is driver]:
                del _drivers[key]
            driver.close_blocking()
        return


def _known(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {tp: offset for tp, offset in offsets.items() if offset >= 0}


def _driver(client: Mapping[str, object]) -> Driver:
    config = ProducerConfig.of(config=client)
    return Driver(Engine(config, real_ports(), client_id=next_client_id("sink")))
