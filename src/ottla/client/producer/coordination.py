"""Talks to the coordinator of a producer's transactions, on the I/O thread.

A shell around `Transactions`, which decides.  A producer without transactional id has one too: it
has nothing to do, and everything may be sent.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ottla.client.engine import Engine
from ottla.client.producer.additions import Additions
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.transactions import (
    PreparedToken,
    State,
    Transactions,
    offsets_error,
    offsets_failure,
)
from ottla.client.records import GroupMetadata, OffsetAndMetadata
from ottla.client.targets import group as group_target
from ottla.client.targets import transaction as transaction_target
from ottla.errors import (
    AbortableError,
    BrokerError,
    ConfigError,
    DeadlineError,
    ErrorCode,
    MisuseError,
    OttlaError,
    exception_for,
    raise_for_code,
)
from ottla.model import TopicPartition
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitResponse

if TYPE_CHECKING:
    from ottla.client.producer.pump import Pump, Stock

log = logging.getLogger(__name__)

_TWO_PHASE = 6
"""InitProducerId: what knows of prepared transactions (KIP-939)."""


class Coordination:
    """See the module's words."""

    def __init__(
        self, engine: Engine, config: ProducerConfig, stock: "Stock", pump: "Pump"
    ) -> None:
        self._engine = engine
        self._config = config
        self._stock = stock
        self._pump = pump
        self._is_initializing = False
        self._committed: object = None
        """Whose transaction was the last one to be committed."""
        self._is_ending = False
        """Whether nothing more may be sent into the open transaction."""
        self._undoing: OttlaError | None = None
        """Why what is not sent yet never will be."""
        self.features: Callable[[], Mapping[str, int]] = lambda: engine.features
        """Finalized features of the cluster: they decide about the version of the protocol."""
        self._machine: Transactions | None = None
        if config.transactional_id is not None:
            self._machine = Transactions(config)
            self._additions = Additions(engine, self._machine, stock, pump)
            stock.sender.may_write = self._additions.may_write
            stock.sender.on_failed = self._on_failed
            stock.sender.hopeless = self._hopeless

    @property
    def machine(self) -> Transactions:
        """The transactions; raises `ConfigError` for a producer that has none."""
        if self._machine is None:
            raise ConfigError("transactions need a transactional.id")
        return self._machine

    @property
    def is_open(self) -> bool:
        """Whether a transaction waits to be ended."""
        return self._machine is not None and self._machine.state in (State.OPEN, State.SPOILED)

    @property
    def max_produce_version(self) -> int | None:
        return None if self._machine is None else self._machine.versions.produce

    def check_sendable(self) -> None:
        """Raise why nothing can be sent now, if so."""
        if self._machine is not None:
            self._machine.check_open()
            if self._is_ending:
                raise _too_late()

    def is_undone(self, owner: object) -> bool:
        """Whether what `owner` did is surely not committed: else going back might do it twice."""
        in_doubt = self._machine is not None and self._machine.is_in_doubt
        return not in_doubt and self._committed is not owner

    async def begin(self, owner: object) -> None:
        """Open a transaction; before the first one, find out who we are."""
        machine = self.machine
        machine.check_alive()
        if machine.state is State.UNREADY:
            await self._initialize()
        machine.begin(owner)

    async def commit(self) -> None:
        """Deliver all records, commit the offsets, and commit the transaction."""
        machine = self.machine
        with self._sealed():
            await self._complete()
            machine.ending()
            await self._end(commits=True)

    async def prepare(self) -> PreparedToken:
        """Deliver all records and offsets, and leave the end to whoever has the token."""
        with self._sealed():
            await self._complete()
            return self.machine.prepared()

    async def abort(self) -> None:
        """Drop what is not sent, wait for what is, and abort the transaction."""
        machine = self.machine
        with self._sealed():
            await self._drop()
            self._see_failures()
            machine.check_alive()
            machine.ending()
            await self._end(commits=False)

    async def undo(self, owner: object, *, keeps_prepared: bool) -> None:
        """After a transaction failed: abort it, or, where the producer is dead, give up the rest.

        What failed in it was told with it, and is told nobody else.  If the transaction of `owner`
        never began, or has ended, there is nothing to undo.  A prepared one is kept for who has
        its token.
        """
        machine = self._machine
        if machine is None or machine.owner is not owner:
            return
        if self.is_open or (machine.state is State.PREPARED and not keeps_prepared):
            await self.abort()
            return
        if machine.state is State.DEAD:
            assert machine.error is not None
            with self._stock.lock:
                settled = self._stock.sender.fail_all(machine.error)
            self._pump.publish(settled)
        self._see_failures()

    async def end_prepared(self, token: PreparedToken, *, commits: bool) -> bool:
        """End a transaction that somebody prepared; False if it had ended before."""
        machine = self.machine
        machine.check_alive()
        if machine.state is State.PREPARED:
            if machine.producer != token:
                raise MisuseError(f"prepared is {machine.producer}, not {token}")
            machine.ending()
            await self._end(commits=commits)
            return True
        if machine.state is not State.UNREADY:
            raise MisuseError("a prepared transaction is ended before others begin")
        if self._config.transaction_two_phase_commit_enable:
            return await self._take_over(token, commits=commits)
        return await self._end_as(token, commits=commits)

    def add_offsets(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Commit offsets with the transaction."""
        self.machine.add_offsets(group, offsets)

    # How it is done.

    @contextmanager
    def _sealed(self) -> Iterator[None]:
        """Nothing is sent into the transaction meanwhile: who flushes it has all of it."""
        self._is_ending = True
        try:
            self._stock.workshop.interrupt(_too_late())
            yield
        finally:
            self._is_ending = False

    async def _drop(self) -> None:
        """Have nothing on its way any more: what comes back is not sent again."""
        aborted = AbortableError(ErrorCode.TRANSACTION_ABORTABLE, "the transaction was aborted")
        self._undoing = self.machine.error or aborted
        try:
            await self._additions.stop()
            while self._stock.lines.incomplete:
                with self._stock.lock:
                    settled = self._stock.sender.fail_all(self._undoing, with_sent=False)
                self._pump.publish(settled)
                await self._pump.landed()
        finally:
            self._undoing = None

    def _hopeless(self) -> OttlaError | None:
        """Called with the lock."""
        if self._undoing is not None:
            return self._undoing
        machine = self.machine
        return machine.error if machine.state in (State.SPOILED, State.DEAD) else None

    async def _initialize(self, *, keeps_prepared: bool = False) -> InitProducerIdResponse:
        if self._is_initializing:
            raise MisuseError("a producer has one transaction at a time, and one is beginning")
        self._is_initializing = True
        try:
            return await self._ask_identity(keeps_prepared=keeps_prepared)
        finally:
            self._is_initializing = False

    async def _ask_identity(self, *, keeps_prepared: bool) -> InitProducerIdResponse:
        machine = self.machine
        request = machine.init_request(keeps_prepared=keeps_prepared)
        two_phase = self._config.transaction_two_phase_commit_enable
        answer = await self._engine.call(
            request,
            InitProducerIdResponse,
            to=transaction_target(machine.transactional_id),
            timeout_ms=self._config.max_block_ms,
            min_version=_TWO_PHASE if two_phase else None,
        )
        if answer.error_code != ErrorCode.NONE:
            error = exception_for(
                answer.error_code, f"transactional id {machine.transactional_id!r}"
            )
            if error.fatal:
                machine.kill(error)
            raise error
        machine.initialized(answer, self.features())
        with self._stock.lock:
            self._stock.sender.identified(*machine.producer)
        return answer

    async def _complete(self) -> None:
        """Everything but the end: records are written, offsets are sent."""
        machine = self.machine
        machine.check_open()
        await self._pump.flush()
        if machine.error is not None:
            self._see_failures()
        machine.check_open()
        try:
            for group in machine.offsets:
                await self._send_offsets(group)
        except OttlaError as error:
            machine.spoil(error)
            raise

    async def _send_offsets(self, group: GroupMetadata) -> None:
        machine = self.machine
        machine.is_started = True
        if not machine.is_version_2:
            added = await self._engine.call(
                machine.group_request(group),
                AddOffsetsToTxnResponse,
                to=transaction_target(machine.transactional_id),
            )
            raise_for_code(added.error_code, f"group {group.group_id!r}")
            machine.is_known = True
        answer = await self._engine.call(
            machine.offsets_request(group),
            TxnOffsetCommitResponse,
            to=group_target(group.group_id),
            failure=offsets_failure,
            max_version=machine.versions.commit_offsets,
        )
        if code := offsets_failure(answer):
            raise offsets_error(code, group)

    async def _end(self, *, commits: bool) -> None:
        machine = self.machine
        answer: EndTxnResponse | None = None
        if machine.is_started:
            try:
                answer = await self._ask_end(machine.end_request(commits=commits))
            except AbortableError as error:
                machine.spoil(error)
                raise
            except BrokerError as error:
                if commits or not machine.was_nothing(error):
                    machine.kill(error)
                    raise
            except BaseException as error:
                # Also if the wait was broken off: who begins anew under the same id finds out.
                machine.is_in_doubt = commits
                machine.kill(_unknown_end(error))
                raise
        self._committed = machine.owner if commits else None
        machine.ended(answer)
        if machine.state is State.READY:
            with self._stock.lock:
                self._stock.sender.identified(*machine.producer)

    async def _ask_end(self, request: EndTxnRequest) -> EndTxnResponse:
        answer = await self._engine.call(
            request,
            EndTxnResponse,
            to=transaction_target(request.transactional_id),
            max_version=self.machine.versions.end,
        )
        raise_for_code(answer.error_code, f"transactional id {request.transactional_id!r}")
        return answer

    async def _take_over(self, token: PreparedToken, *, commits: bool) -> bool:
        answer = await self._initialize(keeps_prepared=True)
        machine = self.machine
        if machine.state is not State.PREPARED:
            return False
        ongoing = PreparedToken(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        machine.ending()
        is_meant = ongoing == token
        # What is not meant was never prepared: nobody will ever ask to commit it.
        await self._end(commits=commits and is_meant)
        return is_meant

    async def _end_as(self, token: PreparedToken, *, commits: bool) -> bool:
        """Without KIP-939: whoever shows the same id and epoch is the same producer."""
        request = EndTxnRequest(
            transactional_id=self.machine.transactional_id,
            producer_id=token.producer_id,
            producer_epoch=token.epoch,
            committed=commits,
        )
        await self._engine.connect()
        answer = await self._engine.call(
            request, EndTxnResponse, to=transaction_target(request.transactional_id), max_version=4
        )
        raise_for_code(answer.error_code, f"prepared transaction {token}")
        return True

    def _on_failed(self, error: OttlaError) -> None:
        """A batch was not delivered.  Called with the lock."""
        self.machine.needs_new_epoch = True
        if self.machine.state is State.OPEN:
            self.machine.spoil(error, from_produce=True)

    def _see_failures(self) -> None:
        """What failed in a transaction is told by the transaction."""
        self._stock.failures.take()


def _too_late() -> MisuseError:
    return MisuseError("the transaction is being ended: nothing can be sent into it")


def _unknown_end(error: BaseException) -> OttlaError:
    """What a producer says from now on that does not know how its transaction ended."""
    if isinstance(error, OttlaError):
        error.fatal = True
    why = str(error) if isinstance(error, OttlaError) else "the wait for it was broken off"
    unknown = DeadlineError(
        f"nobody knows how the transaction ended: {why}; make a new producer with the same "
        "transactional.id, and let consumers begin at their committed offsets"
    )
    unknown.fatal = True
    return unknown
